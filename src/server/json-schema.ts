import { z } from 'zod'

export type JsonSchema = Readonly<Record<string, unknown>>

/** A schema in the words of JSON Schema 2020-12: what is taken (`input`), or what is given (`output`). */
export function jsonSchemaOf(schema: z.ZodType, io: 'input' | 'output' = 'input'): JsonSchema {
  const { $schema, ...rest } = z.toJSONSchema(schema, {
    io,
    unrepresentable: 'any',
    target: 'draft-2020-12',
    // What is read from the text of a query is written down as what it means.
    override: ({ jsonSchema }) => {
      if (jsonSchema.type === 'integer' && typeof jsonSchema.default === 'string') {
        jsonSchema.default = Number(jsonSchema.default)
      }
    },
  })
  return rest
}
