console.log('spinning')
for (;;);
