/* block.c -- a model's pieces as programs of operations: embedding, layer, head. What stands in them is written in style.c and block_*.c.
 *
 * What a function here or there makes, in which order, under which of Python's names, is read off the forward() of the module it is named
 * after. Source: transformers 5, src/transformers/models. */
#include "parts.h"

#include <stddef.h>

/* ------------------------------------------------------------------------------------------ sizes, beginning and end -- */

vram_size vram_part_size(const block *b, int factors, vram_symbol a, double x, vram_symbol c, double y, vram_symbol d, double z, vram_symbol e, double w)
{
    return vram_tape_size(b->t, factors, (const vram_factor[]){{a, x}, {c, y}, {d, z}, {e, w}});
}

vram_size vram_part_rows(const block *b, int factors, vram_symbol a, double x, vram_symbol c, double y)
{
    return vram_part_size(b, factors, VRAM_SYMBOL_MICRO_BATCH, b->pass->batch, VRAM_SYMBOL_SEQUENCE, b->pass->tokens, a, x, c, y);
}

void vram_part_hold(const block *b, int n, const vram_cell cells[])
{
    for (int i = 0; i < n; i++) vram_tape_hold(b->t, cells[i]);
}

/* A base model's weight that is no linear layer's: trained, or frozen under LoRA */
vram_cell vram_part_vector(const block *b, double length)
{
    return vram_tape_parameter(b->t, SIZE_1(b, VRAM_SYMBOL_WIDTH, length), b->pass->plain_width, !b->pass->lora && b->pass->gradients);
}

vram_size vram_part_stream_size(const block *b) { return b->style.hyper ? vram_v4_stream_size(b) : b->style.altup ? ROWS_BY_2(b, VRAM_SYMBOL_COPIES, vram_gemma3n_streams(b), VRAM_SYMBOL_HIDDEN, (double)b->pass->model->hidden) : b->stream; }

static void begin(const vram_pass *pass, vram_tape *t, int kind, block *b)
{
    const vram_scenario *s = pass->scenario;
    vram_tape_clear(t, s->training.autocast != 0 && !pass->no_autocast, pass->workspace);
    t->update = pass->update;
    t->gradient_share = pass->gradient_share;
    t->caches = !pass->gradients && !pass->lora && s->training.method == VRAM_METHOD_FULL;
    *b = (block){.pass = pass, .t = t, .kind = kind, .layer = kind < 0 ? NULL : &pass->model->kind[kind], .style = vram_style_of(pass->model)};
    t->keeps_casts = kind < 0 || !b->style.transposed_weights;
    b->hidden = b->stream = vram_part_wide(b, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
    b->rows = b->stream_rows = ROWS_OF(b);
    if (s->parallel.tensor <= 1) return;
    if (kind >= 0) b->layer = vram_rank_layer(s, b->layer, &b->divided);
    if (!s->parallel.sequence) return;
    vram_factor batch = {VRAM_SYMBOL_MICRO_BATCH, pass->batch}, part = {VRAM_SYMBOL_SEQUENCE, vram_stream_tokens(pass)};
    b->stream = SIZE_3(b, batch.symbol, batch.value, part.symbol, part.value, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
    b->stream_rows = SIZE_2(b, batch.symbol, batch.value, part.symbol, part.value);
}

static void finish(block *b, vram_cell y)
{
    b->t->output = y;
    if (y >= 0) b->t->cell[b->t->cell[y].base].last_use = -1; /* the next piece holds it */
}

/* ------------------------------------------------------------------------------------------------------------ a pass -- */

static double or_config(double given, double config) { return given >= 0 ? given : config; }

/* Gemma 3n and 4: each of these layers puts its keys and values into a dict that all layers are given. Source: kv_sharing_modes ("store"),
 * of models/gemma4/configuration_gemma4.py */
static void note_sharing(vram_pass *pass)
{
    const vram_model *m = pass->model;
    pass->sharing[0] = pass->sharing[1] = -1;
    for (int64_t i = 0; i < m->stage.layers && vram_style_of(m).shares_keys; i++) {
        const vram_attention *a = &m->kind[m->stage.kind[i]].attention;
        if (!a->shares_cache) pass->sharing[a->window > 0] = i;
    }
}

vram_pass vram_pass_of(const vram_scenario *s, const vram_model *model, double batch, double tokens, bool gradients)
{
    bool lora = s->training.method == VRAM_METHOD_LORA, wide_weights = vram_trains_fp32(s);
    bool gathered = s->training.precision == VRAM_PRECISION_AMP && vram_shares_weights(s);
    if (gathered) wide_weights = false; /* fp32 shards are gathered in 16 bit */
    const vram_format_row *stored = vram_format_get(s->weights);
    vram_pass pass = {.scenario = s, .model = model, .batch = batch, .tokens = vram_ceil_div(tokens, (double)s->parallel.context), .lora = lora, .gradients = gradients, .gradient_share = 1};
    pass.four_bit = lora && (s->weights == VRAM_FORMAT_NF4 || s->weights == VRAM_FORMAT_NF4_DQ);
    pass.width = lora ? (stored->scheme == VRAM_SCHEME_NONE && stored->block_bytes / stored->block == 4 ? 4 : 2) : wide_weights ? 4 : 2;
    pass.plain_width = pass.width; /* prepare_kbit: measured steps, on a card and on the stand-in, keep embeddings, norms and head in 16 bit */
    pass.stage = &model->stage;
    pass.input_gradient = gradients && (!lora || s->training.checkpointing == VRAM_CHECKPOINTING_FULL || !model->stage.embedding); /* p2p_communication.py: what is received does */
    pass.workspace = 8519680; /* cuBLAS ":4096:2:16:8": 2 x 4 MiB + 8 x 16 KiB */
    pass.dropout = gradients ? or_config(s->training.dropout, model->resid_dropout) : 0;
    pass.attention_dropout = gradients ? or_config(s->training.dropout, model->attention_dropout) : 0;
    pass.embedding_dropout = gradients ? or_config(s->training.dropout, model->embedding_dropout) : 0;
    note_sharing(&pass);
    return pass;
}

double vram_words_on_rank(const vram_pass *pass) { return vram_ceil_div((double)pass->model->vocab, (double)pass->scenario->parallel.tensor); }

double vram_stream_tokens(const vram_pass *pass)
{
    const vram_scenario *s = pass->scenario;
    return vram_ceil_div(pass->tokens, s->parallel.sequence ? (double)s->parallel.tensor : 1);
}

/* Under autocast Gemma 3n's magnitudes, squares and means, are in fp32, and with them all that is multiplied by them. */
int vram_stream_width(const vram_pass *pass)
{
    const style s = vram_style_of(pass->model);
    return s.wide_stream || (pass->scenario->training.autocast && s.altup) ? 4 : pass->plain_width;
}

/* A table that is embedding and head: its two gradients meet when backward has come to the embedding. */
bool vram_is_tied(const vram_pass *pass) { return pass->model->tied && pass->model->stage.embedding && pass->model->stage.head && !pass->lora && pass->gradients && pass->head != VRAM_HEAD_VALUE; }

int vram_logits_width(const vram_pass *pass) { return vram_style_of(pass->model).wide_logits ? 4 : pass->scenario->training.autocast ? 2 : pass->plain_width; }

/* The model's output stays with its caller until the step, but for the loops of trainers, which pass on nothing but the loss:
 * accelerate's and DeepSpeed's. */
bool vram_caller_keeps_logits(const vram_scenario *s)
{
    if (vram_is_megatron(s, &s->model)) return false;
    return s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN || s->parallel.engine == VRAM_PARALLEL_ENGINE_FSDP2;
}

/* --------------------------------------------------------------------------------------------------------- embedding -- */

static vram_cell table_of(const block *b, vram_symbol symbol, double rows)
{
    return vram_tape_parameter(b->t, SIZE_2(b, symbol, rows, VRAM_SYMBOL_HIDDEN, (double)b->pass->model->hidden), b->pass->plain_width, b->pass->gradients && !b->pass->lora);
}

/* DTensor has no rule for a gradient of rows divided over ranks: that of the whole table is made on each (torch/distributed/tensor/_ops/_embedding_ops.py,
 * embedding_dense_backward_strategy). FSDP lets it go when it has reduced it; else it is the parameter's, unless a head shares the table: its gradient is
 * divided, and so is the sum. */
static bool makes_whole(const vram_scenario *s, const vram_model *m) { return s->parallel.tensor > 1 && s->parallel.engine == VRAM_PARALLEL_ENGINE_PLAIN && !vram_is_megatron(s, m); }
static bool joins_head(const vram_model *m) { return m->tied && m->stage.embedding && m->stage.head; }

bool vram_table_stays_whole(const vram_scenario *s, const vram_model *m) { return makes_whole(s, m) && !joins_head(m); }

/* Words of the table's gradient */
static double words_of_gradient(const vram_pass *pass)
{
    return vram_is_fsdp(pass->scenario) || vram_table_stays_whole(pass->scenario, pass->model) ? (double)pass->model->vocab : vram_words_on_rank(pass);
}

static double whole_before_tie(const vram_pass *pass)
{
    return makes_whole(pass->scenario, pass->model) && joins_head(pass->model) ? ((double)pass->model->vocab + vram_words_on_rank(pass)) * (double)pass->model->hidden * pass->plain_width : 0; /* and the rank's own, cut out of it */
}

/* With checkpoints a frozen embedding's output is made to require a gradient: a leaf, which the graph holds (enable_input_require_grads). */
static void keep_leaf(const block *b, vram_cell leaf)
{
    if (!b->pass->lora || !b->pass->input_gradient) return;
    b->t->cell[leaf].cached = false;
    b->t->cell[leaf].last_use = -1;
}

/* words, and positions where they are learned */
void vram_block_embedding(const vram_pass *pass, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_embedding(pass, t); return; }
    block b;
    begin(pass, t, -1, &b);
    int width = pass->plain_width;
    vram_cell words = vram_op_embedding(t, table_of(&b, VRAM_SYMBOL_VOCABULARY, words_of_gradient(pass)), whole_before_tie(pass), b.hidden, width, VRAM_WHAT_HIDDEN_STATES), y = words;
    if (b.style.scaled_embedding) y = vram_op_constant(t, y, 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell leaf = b.style.norm == NORM_GEMMA || b.style.norm == NORM_GEMMA_4 ? y : words; /* Gemma's embeddings scale themselves */
    if (pass->lora && pass->input_gradient) t->cell[leaf].grad = true; /* enable_input_require_grads */
    if (b.style.embedding_norm || pass->model->embedding_norm) {
        y = vram_part_stream_norm(&b, y);
        vram_part_name(&b, words);
    }
    if (pass->model->position == VRAM_POSITION_LEARNED) {
        vram_size places = b.style.positions_apart ? b.hidden : SIZE_2(&b, VRAM_SYMBOL_SEQUENCE, pass->tokens, VRAM_SYMBOL_HIDDEN, (double)pass->model->hidden);
        vram_cell position = vram_op_embedding(t, table_of(&b, VRAM_SYMBOL_ROWS, (double)pass->model->position_rows), 0, places, width, VRAM_WHAT_HIDDEN_STATES);
        y = vram_op_add(t, words, position, VRAM_WHAT_HIDDEN_STATES);
        y = vram_op_dropout(t, y, pass->embedding_dropout, VRAM_WHAT_HIDDEN_STATES);
        vram_part_name(&b, position);
        vram_part_name(&b, words);
    }
    if (b.style.shared_block) { /* torch.clone(inputs_embeds) */
        vram_cell originals = vram_op_copy(t, y, b.hidden, VRAM_WHAT_HIDDEN_STATES);
        t->cell[originals].last_use = -1;
        if (pass->scenario->training.checkpointing == VRAM_CHECKPOINTING_NONE) vram_part_name(&b, originals);
    }
    vram_gemma3n_inputs(&b, y);
    if (b.style.altup) y = vram_gemma3n_embeddings(&b, words);
    if (b.style.hyper) {
        y = vram_v4_embeddings(&b, words);
        vram_part_name(&b, words);
    }
    t->named = !t->cell[words].cached;
    keep_leaf(&b, leaf);
    finish(&b, vram_part_scatter(&b, y));
}

/* ------------------------------------------------------------------------------------------------------------ layers -- */

static vram_cell residual(const block *b, vram_cell x, vram_cell y)
{
    vram_cell scaled = b->style.scaled_residual ? vram_op_constant(b->t, y, 0, VRAM_WHAT_HIDDEN_STATES) : y;
    vram_cell sum = vram_op_add(b->t, x, scaled, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(b->t, y);
    return sum;
}

/* Attention and MLP read the same input: each with a norm of its own (GPT-NeoX), or one for both */
static vram_cell parallel_blocks(const block *b, vram_cell x, vram_cell *weights)
{
    vram_tape *t = b->t;
    vram_cell normed = vram_part_gather(b, vram_part_stream_norm(b, x));
    vram_cell attended = vram_part_scatter(b, vram_part_attention(b, normed, weights));
    vram_cell fed = vram_part_scatter(b, vram_part_mlp(b, b->style.two_norms || b->layer->norms > 1 ? vram_part_gather(b, vram_part_stream_norm(b, x)) : normed));
    vram_cell sum = vram_op_add(t, fed, attended, VRAM_WHAT_HIDDEN_STATES);
    vram_cell y = vram_op_add(t, sum, x, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, attended);
    vram_tape_hold(t, fed);
    return y;
}

/* Attention, a state-space mixer, or both on one input, each of them scaled (Falcon-H1) */
static vram_cell token_mixer(const block *b, vram_cell x, vram_cell *weights)
{
    vram_tape *t = b->t;
    bool softmax = b->layer->attention.type != VRAM_MIXER_NONE;
    if (!vram_mixer_known(&b->layer->state)) return b->layer->attention.type == VRAM_MIXER_MLA ? vram_part_latent_attention(b, x, weights) : vram_part_attention(b, x, weights);
    vram_cell mixed = vram_mixer_write(b, x);
    if (!softmax) return mixed;
    mixed = vram_op_constant(t, mixed, 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell attended = vram_op_constant(t, vram_part_attention(b, vram_op_constant(t, x, 0, VRAM_WHAT_HIDDEN_STATES), weights), 0, VRAM_WHAT_HIDDEN_STATES);
    vram_cell sum = vram_op_add(t, mixed, attended, VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(t, mixed);
    vram_tape_hold(t, attended);
    vram_tape_hold(t, x);
    return sum;
}

static vram_cell mixed(const block *b, vram_cell x, vram_cell *weights) { return vram_part_scatter(b, token_mixer(b, vram_part_gather(b, x), weights)); }
static vram_cell fed_forward(const block *b, vram_cell x) { return vram_part_scatter(b, vram_part_mlp(b, vram_part_gather(b, x))); }

/* An MLP and experts on one residual stream, each with its norms, the router with another (Gemma 4's mixture) */
static vram_cell mlp_beside_experts(const block *b, vram_cell x)
{
    const vram_ffn *f = &b->layer->ffn;
    const vram_names *n = &b->pass->model->names;
    vram_tape *t = b->t;
    vram_cell first = vram_part_stream_norm(b, vram_part_dense(b, vram_part_stream_norm(b, x), (double)f->width, f->fused_gate_up, vram_or_else(n->gate_up, "gate_up_proj"), vram_or_else(n->down, "down_proj")));
    vram_cell second = vram_part_stream_norm(b, vram_part_experts(b, vram_part_stream_norm(b, x), x)), sum = vram_op_add(t, first, second, VRAM_WHAT_MLP_OUTPUT);
    vram_cell y = vram_part_stream_norm(b, sum);
    const vram_cell names[] = {first, second};
    vram_part_hold(b, 2, names);
    return y;
}

static vram_cell weighed_sum(const block *b, vram_cell x, vram_cell y)
{
    vram_cell sum = vram_op_add(b->t, vram_op_constant(b->t, x, 0, VRAM_WHAT_HIDDEN_STATES), vram_op_constant(b->t, y, 0, VRAM_WHAT_HIDDEN_STATES), VRAM_WHAT_HIDDEN_STATES);
    vram_tape_hold(b->t, x);
    vram_tape_hold(b->t, y);
    return sum;
}

static vram_cell normed_residual_blocks(const block *b, vram_cell x, vram_cell *weights)
{
    vram_cell in = vram_part_stream_norm(b, x), middle = weighed_sum(b, in, mixed(b, in, weights)), next = vram_part_stream_norm(b, middle);
    vram_cell y = weighed_sum(b, next, fed_forward(b, next));
    return y;
}

/* ZambaHybridLayer: attention and MLP, without a residual, of the input and the words' embeddings side by side; brought back by a linear layer
 * and added to the mixer's input. The gradient of the embeddings is what the other layers have given to it, too. */
static vram_cell with_shared_block(const block *b, vram_cell x, vram_cell *weights, vram_cell *name)
{
    vram_tape *t = b->t;
    double h = (double)b->pass->model->hidden, in = (double)b->layer->attention.input;
    vram_cell words = vram_tape_outside(t, b->hidden, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    t->cell[words].grad = t->cell[words].summed = t->cell[x].grad && (!b->pass->lora || b->pass->input_gradient);
    vram_cell both = vram_op_join(t, x, words, vram_part_wide(b, VRAM_SYMBOL_WIDTH, in), VRAM_WHAT_HIDDEN_STATES);
    t->repeating = b->layer->shared_blocks > 0 && !b->pass->lora; /* adapters are each layer's own */
    vram_cell fed = vram_part_mlp(b, vram_part_stream_norm(b, vram_part_attention(b, vram_part_norm(b, both, b->rows, in), weights)));
    t->repeating = false;
    *name = vram_part_linear(b, fed, "linear", h, h, b->hidden, VRAM_WHAT_HIDDEN_STATES);
    return vram_op_add(t, x, *name, VRAM_WHAT_HIDDEN_STATES);
}

/* Norms before, after, or before and after attention and MLP; a layer may be one of the two (Mamba, Nemotron-H) */
static vram_cell serial_blocks(const block *b, vram_cell x, vram_cell *weights)
{
    if (b->style.shared_block && b->layer->attention.type != VRAM_MIXER_NONE) {
        vram_cell beside, y = residual(b, x, vram_mixer_write(b, vram_part_stream_norm(b, with_shared_block(b, x, weights, &beside))));
        vram_tape_hold(b->t, beside);
        return y;
    }
    if (b->style.normed_residual) return normed_residual_blocks(b, x, weights);
    bool after = b->layer->post_norms, before = !after || b->layer->norms >= 4, mixes = b->layer->attention.type != VRAM_MIXER_NONE || vram_mixer_known(&b->layer->state), feeds = b->layer->ffn.type != VRAM_FFN_NONE;
    if (mixes && !feeds) return residual(b, x, mixed(b, vram_part_stream_norm(b, vram_op_cast(b->t, x, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES)), weights));
    if (!mixes && b->layer->norms == 1) return residual(b, x, fed_forward(b, vram_part_stream_norm(b, vram_op_cast(b->t, x, b->pass->plain_width, VRAM_WHAT_HIDDEN_STATES))));
    vram_cell attended = mixed(b, before ? vram_part_stream_norm(b, x) : x, weights);
    if (after) attended = vram_part_stream_norm(b, attended);
    vram_cell middle = residual(b, x, attended);
    if (b->layer->norms == 7) {
        vram_cell both = residual(b, middle, mlp_beside_experts(b, middle));
        vram_tape_hold(b->t, middle);
        return both;
    }
    vram_cell fed = fed_forward(b, before ? vram_part_stream_norm(b, middle) : middle);
    if (after || b->layer->norms == 3) fed = vram_part_stream_norm(b, fed); /* A.X K1: one more behind the experts */
    vram_cell y = residual(b, middle, fed);
    vram_tape_hold(b->t, middle);
    if (b->style.named_attention) vram_tape_hold(b->t, attended);
    return y;
}

/* bitsandbytes hands its product on in the type of its input, and under autocast LayerNorm's output is fp32: so is then what an MLP adds to the
 * stream, behind the first layer. Source: bitsandbytes/nn/modules.py (Linear4bit.forward) */
static int carried_width(const vram_pass *pass)
{
    vram_norm_type norm_type = pass->model->norm;
    style family = vram_style_of(pass->model);
    bool layer_norm = (norm_type == VRAM_NORM_LAYER || norm_type == VRAM_NORM_LAYER_BIAS || norm_type == VRAM_NORM_LAYER_BARE) && !family.written_norm && !family.wide_norm && !family.narrow_norm;
    bool wide = layer_norm || family.differential || (family.act != ACT_KERNEL && family.act != ACT_RELU); /* activations written out, too */
    return pass->four_bit && wide && pass->scenario->training.autocast && !pass->no_autocast ? 4 : vram_stream_width(pass);
}

void vram_block_layer(const vram_pass *pass, int kind, bool input_gradient, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_layer(pass, kind, input_gradient, t); return; }
    block b;
    begin(pass, t, kind, &b);
    vram_cell weights = VRAM_NO_CELL, x = vram_tape_input(t, vram_part_stream_size(&b), input_gradient || !pass->gradients ? carried_width(pass) : vram_stream_width(pass), VRAM_WHAT_HIDDEN_STATES, input_gradient);
    vram_cell y = b.style.altup ? vram_gemma3n_layer(&b, x, &weights) : b.style.hyper ? vram_v4_layer(&b, x) : b.layer->parallel ? parallel_blocks(&b, x, &weights) : serial_blocks(&b, x, &weights);
    if (!b.style.altup) y = vram_gemma3n_with_input(&b, y);
    if (b.style.layer_scalar) {
        y = vram_op_slice(t, y, t->cell[y].shape, VRAM_WHAT_HIDDEN_STATES);
        t->op[t->ops - 1].others = 1;
    }
    vram_tape_hold(t, x); /* the model's forward() has it under the name that the output will get */
    vram_tape_hold(t, weights);
    if (weights >= 0 && b.style.returns_weights) {
        t->returned = vram_tape_outside(t, t->cell[weights].shape, vram_width(t, weights), VRAM_WHAT_ATTENTION_PROBABILITIES);
        t->cell[t->returned].outside = false;
        t->cell[t->returned].last_use = -1;
    }
    finish(&b, y);
}

/* The state-space mixer of a layer alone, without gradients: for generate(). Its input is counted outside. */
void vram_block_mixer(const vram_pass *pass, int kind, vram_tape *t)
{
    block b;
    begin(pass, t, kind, &b);
    finish(&b, vram_mixer_write(&b, vram_tape_outside(t, b.hidden, pass->width, VRAM_WHAT_HIDDEN_STATES)));
}

/* ----------------------------------------------------------------------------------------------------- head and loss -- */

static vram_cell head_weight(const block *b)
{
    const vram_model *m = b->pass->model;
    vram_size table = SIZE_2(b, VRAM_SYMBOL_VOCABULARY, vram_words_on_rank(b->pass), VRAM_SYMBOL_HIDDEN, (double)m->hidden);
    return (vram_is_tied(b->pass) ? vram_tape_tied : vram_tape_parameter)(b->t, table, b->pass->plain_width, b->pass->gradients && !b->pass->lora);
}

static vram_cell logits_of(const block *b, vram_cell last, vram_cell weight)
{
    const vram_model *m = b->pass->model;
    vram_tape *t = b->t;
    double on_rank = vram_words_on_rank(b->pass);
    vram_cell logits = vram_op_linear(t, last, weight, m->head_bias ? vram_part_vector(b, on_rank) : VRAM_NO_CELL, vram_part_wide(b, VRAM_SYMBOL_VOCABULARY, on_rank), VRAM_WHAT_LOGITS);
    const linear_shape head = {"lm_head", on_rank, (double)m->hidden, vram_part_wide(b, VRAM_SYMBOL_VOCABULARY, on_rank), VRAM_WHAT_LOGITS};
    logits = vram_part_adapted(b, last, logits, &head, b->pass->lora ? vram_lora_head_rank(b->pass->scenario) : 0);
    if (b->style.wide_logits) logits = vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32);
    vram_cell first = logits;
    if (b->style.scaled_logits || m->capped_logits) logits = vram_op_constant(t, logits, 0, VRAM_WHAT_LOGITS);
    if (m->capped_logits) logits = vram_op_constant(t, vram_op_unary(t, logits, false, true, 0, VRAM_WHAT_LOGITS), 0, VRAM_WHAT_LOGITS);
    if (b->style.capped_at_once) vram_tape_hold(t, first);
    return logits;
}

/* Unsloth's cross entropy, which goes with flash attention's package, came under transformers that made the logits fp32 under their own
 * name and copied all positions but the last: two fp32 tensors, the second of which becomes its own gradient. Liger's of today copies
 * labels, not logits. Source: transformers 4.45, models/llama/modeling_llama.py (forward); fms_acceleration_foak/kernels/unsloth/cross_entropy_loss.py */
static bool shifts_logits(const vram_scenario *s)
{
    return s->training.loss == VRAM_LOSS_INPLACE && s->training.kernels == VRAM_KERNELS_FUSED && s->training.attention == VRAM_ATTENTION_FLASH;
}

/* Source: llmfoundry/models/mpt/modeling_mpt.py (loss_fn: fused_crossentropy) */
static bool over_logits(const vram_pass *pass)
{
    return vram_style_of(pass->model).flash_loss && pass->scenario->training.attention == VRAM_ATTENTION_FLASH && pass->scenario->training.loss == VRAM_LOSS_FULL;
}

static void cross_entropy(const block *b, vram_cell logits, vram_cell labels)
{
    const vram_scenario *s = b->pass->scenario;
    vram_tape *t = b->t;
    if (shifts_logits(s)) {
        vram_cell shifted = vram_op_copy(t, logits, t->cell[logits].shape, VRAM_WHAT_SHIFTED_LOGITS);
        t->cell[shifted].component = VRAM_COMPONENT_LOGITS;
        vram_op_cross_entropy_over(t, shifted, labels);
        vram_tape_hold(t, logits);
    } else if (over_logits(b->pass) || (s->training.loss == VRAM_LOSS_INPLACE && !vram_loss_stays_whole(s))) {
        vram_op_cross_entropy_over(t, logits, labels);
    } else if (s->parallel.tensor > 1) {
        vram_op_cross_entropy_divided(t, logits, labels);
    } else {
        vram_op_cross_entropy(t, logits, labels);
    }
}

void vram_block_head(const vram_pass *pass, vram_tape *t)
{
    if (vram_is_megatron(pass->scenario, pass->model)) { vram_megatron_head(pass, t); return; }
    block b;
    begin(pass, t, -1, &b);
    double wide_inputs;
    vram_size all = vram_gemma3n_inputs_size(&b, &wide_inputs);
    if (wide_inputs > 0 && vram_gemma3n_inputs_trained(&b)) vram_op_standing(t, all, pass->plain_width);
    vram_cell given = vram_tape_input(t, vram_part_stream_size(&b), carried_width(pass), VRAM_WHAT_HIDDEN_STATES, pass->gradients), x = b.style.altup ? vram_gemma3n_collapsed(&b, given) : b.style.hyper ? vram_v4_collapsed(&b, given) : given;
    vram_cell last = vram_part_gather(&b, pass->model->final_norm ? vram_part_stream_norm(&b, x) : x), weight = head_weight(&b);
    if (b.style.wide_stream) last = vram_op_cast(t, last, pass->plain_width, VRAM_WHAT_HIDDEN_STATES);
    t->offloads = false; /* the head is left out, and the loss is outside */
    if (pass->head != VRAM_HEAD_LOSS) {
        vram_head_write(pass, t, last, weight);
        finish(&b, VRAM_NO_CELL);
        return;
    }
    vram_cell logits = logits_of(&b, last, weight);
    vram_tape_mark(t);
    vram_cell ids = vram_tape_outside(t, b.rows, 8, VRAM_WHAT_INPUT_IDS);
    vram_cell wide_logits = over_logits(pass) ? logits : vram_op_cast(t, logits, 4, VRAM_WHAT_LOGITS_FP32);
    vram_cell labels = vram_op_constant(t, ids, 8, VRAM_WHAT_LABELS);
    cross_entropy(&b, wide_logits, labels);
    vram_tape_hold(t, last);
    if (!shifts_logits(pass->scenario)) t->cell[logits].last_use = vram_caller_keeps_logits(pass->scenario) ? (short)-1 : (short)(t->ops - 1);
    finish(&b, VRAM_NO_CELL);
}

/* ------------------------------------------------------------------------------------------------- what layers share -- */

/* numbers of cos for a position; of latent attention those that turn (head_dim = qk_rope_head_dim: models/deepseek_v3/configuration_deepseek_v3.py) */
static double rotary_dim(const vram_model *m)
{
    for (int i = 0; i < m->kinds; i++) {
        const vram_attention *a = &m->kind[i].attention;
        if (a->type != VRAM_MIXER_NONE) return (double)(a->type == VRAM_MIXER_MLA ? a->qk_rope_head_dim : a->rotary_dim > 0 ? a->rotary_dim : a->head_dim);
    }
    return 0;
}

void vram_block_shared(const vram_pass *pass, vram_role role, unsigned phases, vram_report *report)
{
    const vram_model *m = pass->model;
    vram_entry *ids = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_INPUT_IDS, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    vram_times(vram_times(vram_times(ids, VRAM_SYMBOL_MICRO_BATCH, pass->batch), VRAM_SYMBOL_SEQUENCE, pass->tokens), VRAM_SYMBOL_BYTES, 8);
    if (vram_is_megatron(pass->scenario, m)) vram_megatron_shared(pass, role, phases, report);
    if (m->position != VRAM_POSITION_ROTARY) return;
    vram_entry *tables = vram_add(report, role, VRAM_COMPONENT_ACTIVATIONS, VRAM_WHAT_ROTARY_TABLES, VRAM_EXACT, VRAM_SOURCE_TRANSFORMERS, phases);
    vram_times(vram_times(tables, VRAM_SYMBOL_COPIES, vram_style_of(m).two_tables ? 4 : 2), VRAM_SYMBOL_SEQUENCE, pass->tokens);
    vram_times(vram_times(tables, VRAM_SYMBOL_HEAD_DIM, rotary_dim(m)), VRAM_SYMBOL_BYTES_PER_ELEMENT, vram_style_of(m).wide_tables ? 4 : vram_stream_width(pass));
}
