// Configs of every family, with numbers changed and keys left out: as many parameters, and as many for LoRA to train, as the classes themselves have.

import assert from 'node:assert/strict'
import { test } from '../harness.mjs'
import { batch, rows } from '../lib.mjs'

const table = rows('tests/cases/configs.jsonl')
const cases = table.flatMap(row => [
  { name: `${row.id}: parameters`, scenario: { model: row.config }, of: 'params_total', want: [row.params, row.params + (row.buffers ?? 0)] },
  ...(row.lora ?? []).map(l => ({
    name: `${row.id}: LoRA on ${l.targets}`, of: 'params_trainable', want: [l.trainable],
    scenario: { model: row.config, task: 'training', training: { method: 'lora' }, lora: { rank: l.rank, targets: l.targets } },
  })),
])
const answers = batch(cases.map(c => c.scenario)).map(line => JSON.parse(line))

for (const [i, c] of cases.entries()) await test(c.name, () => {
  assert.ok(!answers[i].error, JSON.stringify(answers[i].error))
  assert.ok(c.want.includes(answers[i].model[c.of]), `${answers[i].model[c.of]}, not ${c.want.join(' or ')}`)
})
