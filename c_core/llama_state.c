/* llama_state.c -- recurrent layers of llama.cpp's graph. Source: llama.cpp v0.5.0, src/llama-graph.cpp (build_rs), src/models/mamba-base.cpp,
 * lfm2.cpp, qwen3next.cpp and delta-net-base.cpp. */
#include "llama_net.h"

/* build_rs first clears one state, where the cache is */
static int cached_states(net *n, double bytes)
{
    if (!n->g->host_layers) return GGML_NONE;
    tag(n, VRAM_WHAT_CACHE_COPY);
    int cached = ggml_graph_outside(n->g, GGML_OUTSIDE, bytes);
    tag(n, VRAM_WHAT_STATE_ACTIVATIONS);
    ggml_graph_write(n->g, 0, NULL);
    return cached;
}

/* and moves the states of slots that take no part: none in the largest batch, a tensor of no bytes all the same */
static void move_other_states(net *n, int cached)
{
    int none = ggml_graph_op(n->g, false, ggml_f32(0, 0, 1), SOURCES(cached, OTHER_STATE_IDS));
    ggml_graph_write(n->g, SOURCES(none));
}

/* The states of every sequence */
static int read_states(net *n, double numbers)
{
    ggml_shape shape = ggml_f32(numbers, n->b->sequences, 1);
    int cached = cached_states(n, shape.bytes), states = ggml_graph_op(n->g, false, shape, SOURCES(cached, STATE_IDS));
    move_other_states(n, cached);
    return states;
}

/* The convolution's columns of the layer at hand, or of the next: in llama.cpp's order of nodes some graphs read them before the layer before is done */
static int read_columns(net *n, const vram_state *s, int64_t layer)
{
    bool host = n->g->host_layers;
    n->g->host_layers = layer < n->b->host_layers;
    int columns = read_states(n, vram_state_size(s).conv_channels * ((double)s->conv_kernel - 1));
    n->g->host_layers = host;
    return columns;
}

int llama_read_columns(net *n, const vram_state *s) { return read_columns(n, s, n->layer); }

/* Mamba and short convolutions read the next layer's columns ahead; delta nets and Falcon-H1 do not. */
bool llama_reads_ahead(const vram_layer *layer)
{
    if (!layer || layer->attention.type != VRAM_MIXER_NONE) return false;
    return layer->state.type == VRAM_STATE_MAMBA1 || layer->state.type == VRAM_STATE_MAMBA2 || layer->state.type == VRAM_STATE_SHORT_CONV;
}

void llama_read_ahead(net *n)
{
    const vram_layer *next = layer_at(n, n->layer + 1);
    if (!llama_reads_ahead(next) || n->carried_made) return;
    n->carried = read_columns(n, &next->state, n->layer + 1);
    n->carried_made = true;
}

/* Columns of the past and of this batch, one after the other; the last ones are kept. */
static int joined_columns(net *n, const vram_state *s, int columns, int from)
{
    double channels = vram_state_size(s).conv_channels, past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(n->tokens + past, channels, 1), SOURCES(V(columns), V(from)));
    n->g->tensor[joined].part[GGML_ON_HOST] = n->g->tensor[joined].of.bytes - 4 * n->tokens / n->b->sequences;
    ggml_graph_write(n->g, SOURCES(V(joined)));
    return joined;
}

static int convolution(net *n, const vram_state *s, int joined)
{
    double channels = vram_state_size(s).conv_channels;
    int weight = vector_of(n, (double)s->conv_kernel * channels);
    return placed(n, n->tokens, ggml_graph_op(n->g, false, ggml_f32(channels, n->tokens, 1), SOURCES(joined, weight)));
}

/* The scan of Mamba 1 and 2: what it gives of every token, and the new states, which are kept. */
static int scan(net *n, const vram_state *s, int x, int dt, double decays, int b, int c)
{
    vram_state_shape shape = vram_state_size(s);
    double snapshots = trait(n, SNAPSHOTS) ? n->b->snapshots : 1, states = shape.channels * shape.numbers * n->b->sequences * snapshots;
    int cached = cached_states(n, 4 * states), weight = vector_of(n, decays);
    ggml_shape out = ggml_f32((double)s->inner * n->tokens + states, 1, 1);
    int y = placed(n, 1, ggml_graph_op(n->g, false, out, SOURCES(cached, V(x), dt, weight, b, c, STATE_IDS)));
    move_other_states(n, cached);
    n->g->tensor[y].part[GGML_ON_GPU] = 4 * (double)s->inner * n->tokens;
    n->g->tensor[y].part[GGML_ON_HOST] = 4 * states;
    ggml_graph_write(n->g, SOURCES(V(y)));
    return y;
}

/* norms of the time step, B and C: Jamba's have weights, Falcon-Mamba's have none */
static int state_norm(net *n, const vram_state *s, double width, int from)
{
    int x = shaped(n, true, ggml_f32(width, n->tokens, 1), V(from));
    return s->inner_norms ? factors_of(n, width, x) : x;
}

/* build_mamba_layer: returns the output of the mixer, before the residual */
int llama_mamba1(net *n, const vram_state *s, int columns, int x)
{
    double inner = (double)s->inner, t = n->tokens;
    int in = multiply(n, x, 2 * inner);
    int conv = convolution(n, s, joined_columns(n, s, columns, in));
    if (s->conv_bias) conv = factors_of(n, inner, conv);
    conv = same(n, true, conv);
    int dbc = multiply(n, conv, (double)(s->dt_rank + 2 * s->state));
    bool normed = s->inner_norms || trait(n, BARE_STATE_NORMS);
    int dt = multiply(n, normed ? state_norm(n, s, (double)s->dt_rank, dbc) : shaped(n, false, ggml_f32((double)s->dt_rank, t, 1), V(dbc)), inner);
    dt = factors_of(n, inner, dt);
    double wide = (double)(s->dt_rank + 2 * s->state);
    int b = normed ? state_norm(n, s, (double)s->state, dbc) : V(dbc), c = normed ? state_norm(n, s, (double)s->state, dbc) : apart(n, dbc, (double)s->state, wide);
    if (!normed) n->g->tensor[dbc].part[GGML_ON_HOST] = reach(n, (double)s->state, wide);
    int out = scan(n, s, conv, dt, inner * (double)s->state, b, c);
    if (layer_at(n, n->layer)->ffn.experts == 0) llama_read_ahead(n);
    pick_early(n);
    int z = shaped(n, false, ggml_f32(inner, t, 1), V(in));
    int y = factors_of(n, inner, conv);
    y = ggml_graph_op(n->g, true, ggml_f32(inner, t, 1), SOURCES(V(out), y));
    y = ggml_graph_op(n->g, false, ggml_f32(inner, t, 1), SOURCES(z, y));
    return V(multiply(n, y, n->hidden));
}

/* build_mamba2_layer up to the scan; what follows is asked for later, by whoever needs the output */
mamba2_parts llama_mamba2_scan(net *n, const vram_state *s, int columns, int x)
{
    double inner = (double)s->inner, heads = (double)s->heads, t = n->tokens, channels = inner + 2 * (double)(s->groups * s->state);
    mamba2_parts p;
    p.in = multiply(n, x, inner + channels + heads);
    p.conv = convolution(n, s, joined_columns(n, s, columns, p.in));
    if (s->conv_bias) p.conv = factors_of(n, channels, p.conv);
    p.conv = same(n, true, p.conv);
    int dt = factors_of(n, heads, shaped(n, false, ggml_f32(heads, t, 1), V(p.in)));
    double group = (double)(s->groups * s->state);
    int b = apart(n, p.conv, group, channels), c = apart(n, p.conv, group, channels);
    n->g->tensor[p.conv].part[GGML_ON_HOST] = reach(n, inner, channels);
    p.scan = scan(n, s, p.conv, dt, heads, b, c);
    return p;
}

int llama_mamba2_out(net *n, const vram_state *s, mamba2_parts p)
{
    ggml_shape heads = ggml_f32((double)s->head_dim, (double)s->heads, n->tokens);
    int z = shaped(n, false, heads, V(p.in));
    int y = with_vector(n, (double)s->heads, shaped(n, true, heads, V(p.conv)));
    y = ggml_graph_op(n->g, true, heads, SOURCES(V(p.scan), y));
    y = ggml_graph_op(n->g, false, heads, SOURCES(z, y));
    if (s->gated_norm) y = factors_of(n, (double)s->inner, shaped(n, true, ggml_f32((double)(s->inner / s->groups), (double)s->groups, n->tokens), V(y)));
    return multiply(n, V(y), n->hidden);
}

/* models/lfm2.cpp, build_shortconv_block */
int llama_short_convolution(net *n, const vram_state *s, int columns, int x)
{
    ggml_shape rows = ggml_f32(n->hidden, n->tokens, 1);
    int bcx = multiply(n, V(x), 3 * n->hidden);
    int bx = ggml_graph_op(n->g, true, rows, SOURCES(V(bcx), V(bcx)));
    int joined = joined_columns(n, s, columns, bx);
    if (layer_at(n, n->layer)->ffn.experts == 0) llama_read_ahead(n);
    pick_early(n);
    int y = convolution(n, s, joined);
    y = ggml_graph_op(n->g, true, rows, SOURCES(V(bcx), y));
    return V(multiply(n, y, n->hidden));
}

/* models/qwen35.cpp, qwen3next.cpp, delta-net-base.cpp with the fused kernel */
int llama_gated_delta(net *n, const vram_state *s, int x)
{
    double t = n->tokens, key = (double)(s->key_heads * s->key_head_dim), value = (double)(s->heads * s->head_dim), heads = (double)s->heads;
    ggml_shape keys = ggml_f32((double)s->key_head_dim, (double)s->key_heads, t), repeated = ggml_f32((double)s->key_head_dim, heads, t);
    ggml_shape values = ggml_f32((double)s->head_dim, heads, t);
    bool repeat = trait(n, REPEAT_KEYS) && s->heads != s->key_heads;
    int columns = llama_read_columns(n, s);
    int qkv = multiply(n, x, 2 * key + value);
    int joined = joined_columns(n, s, columns, qkv);
    int state = read_states(n, vram_state_size(s).channels * vram_state_size(s).numbers);
    int conv = same(n, true, convolution(n, s, joined));
    int q = same(n, true, shaped(n, true, keys, V(conv)));
    if (repeat) q = V(shaped(n, false, repeated, V(q)));
    int k = same(n, true, shaped(n, true, keys, V(conv)));
    if (repeat) k = V(shaped(n, false, repeated, V(k)));
    int decay, beta;
    if (s->projections == VRAM_PROJECTIONS_FUSED) {
        int ba = multiply(n, x, 2 * heads);
        decay = V(factors_of(n, heads, same(n, true, factors_of(n, heads, shaped(n, false, ggml_f32(heads, t, 1), V(ba))))));
        beta = V(same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(ba))));
    } else {
        int a = multiply(n, x, heads);
        a = on_host(n) ? with_vector(n, heads, a) : shaped(n, true, ggml_f32(heads, t, 1), V(a));
        decay = V(factors_of(n, heads, same(n, true, a)));
        int b = multiply(n, x, heads);
        beta = shaped(n, true, ggml_f32(1, heads, t), V(b));
    }
    double rows = t + (double)s->key_head_dim * n->b->sequences * n->b->snapshots;
    int out = ggml_graph_op(n->g, false, ggml_f32(value, rows, 1), SOURCES(q, k, V(conv), decay, beta, V(state)));
    n->g->tensor[out].part[GGML_ON_HOST] = 4 * (rows - t) * value;
    ggml_graph_write(n->g, SOURCES(V(out)));
    int y = factors_of(n, (double)s->head_dim, shaped(n, true, values, V(out)));
    int z = multiply(n, x, value);
    int gate = shaped(n, true, values, V(z));
    y = ggml_graph_op(n->g, true, values, SOURCES(y, gate));
    return V(multiply(n, V(y), n->hidden));
}
