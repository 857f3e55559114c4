// Which fields come first for a task, and in which order. Only an order: a field that the core does not have is skipped,
// one that is not named here stands under "more", in its group.
export const FIRST = {
  inference: ['weights', 'context', 'batch', 'kv_cache', 'engine'],
  training: [
    'training.method', 'weights', 'lora.rank', 'lora.targets', 'training.precision', 'training.optimizer', 'training.sequence_length',
    'training.micro_batch', 'training.checkpointing', 'training.attention', 'training.loss', 'parallel.zero', 'parallel.data',
  ],
  rl: [
    'rl.algorithm', 'rl.critic', 'rl.reference', 'rl.reward', 'training.method', 'weights', 'lora.rank', 'training.precision',
    'training.optimizer', 'rl.prompt', 'rl.response', 'rl.rollout_batch', 'training.micro_batch', 'training.checkpointing',
    'parallel.zero', 'parallel.data',
  ],
};

// Fields with a place of their own on the page.
export const ELSEWHERE = new Set(['version', 'task', 'model', 'gpu', 'gpus']);

const GROUPS = [
  ['engine', /^(engine|prompt|kv_cache|transformers|vllm|sglang|llama_cpp|speculative)/],
  ['training', /^training\./],
  ['lora', /^lora\./],
  ['rl', /^rl\./],
  ['parallel', /^parallel\./],
  ['other', /./],
];
export const GROUP_IDS = GROUPS.map(([id]) => id);
export const groupOf = (path) => GROUPS.find(([, pattern]) => pattern.test(path))[0];
