process.exit(9)
