/* llama_state.c -- recurrent layers of llama.cpp's graph. Source: llama.cpp v0.5.0, src/llama-graph.cpp (build_rs), src/models/mamba-base.cpp,
 * lfm2.cpp, qwen3next.cpp and delta-net-base.cpp. */
#include "llama_net.h"

/* build_rs also moves the states of slots that take no part: none in the largest batch, a tensor of no bytes all the same */
static void move_other_states(net *n)
{
    int none = ggml_graph_op(n->g, false, ggml_f32(0, 0, 1), SOURCES(OTHER_STATE_IDS));
    ggml_graph_use(n->g, SOURCES(none));
}

/* The convolution's columns of every sequence; in llama.cpp's order of nodes some graphs read them before the layer before is done */
int llama_read_columns(net *n, const vram_state *s)
{
    vram_state_shape shape = vram_state_size(s);
    int columns = ggml_graph_op(n->g, false, ggml_f32(shape.conv_channels * ((double)s->conv_kernel - 1), n->b->sequences, 1), SOURCES(STATE_IDS));
    move_other_states(n);
    return columns;
}

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
    n->carried = llama_read_columns(n, &next->state);
    n->carried_made = true;
}

/* columns of the past and of this batch, one after the other, and the convolution over them */
static int convolve(net *n, const vram_state *s, int columns, int from, bool bias, bool activation)
{
    vram_state_shape shape = vram_state_size(s);
    double past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(n->tokens + past, shape.conv_channels, 1), SOURCES(V(columns), V(from)));
    int x = shaped(n, false, ggml_f32(shape.conv_channels, n->tokens, 1), joined);
    if (bias) x = same(n, true, x);
    return activation ? same(n, true, x) : x;
}

static double state_numbers(const net *n, const vram_state *s)
{
    vram_state_shape shape = vram_state_size(s);
    return shape.channels * shape.numbers * n->b->sequences;
}

/* norms of the time step, B and C: Jamba's have weights, Falcon-Mamba's have none */
static int state_norm(net *n, const vram_state *s, double width, int from)
{
    int x = shaped(n, true, ggml_f32(width, n->tokens, 1), V(from));
    return s->inner_norms ? same(n, true, x) : x;
}

/* build_mamba_layer: returns the output of the mixer, before the residual */
int llama_mamba1(net *n, const vram_state *s, int columns, int x)
{
    double inner = (double)s->inner, t = n->tokens;
    int in = multiply(n, x, 2 * inner);
    int conv = convolve(n, s, columns, in, s->conv_bias, true);
    int dbc = multiply(n, conv, (double)(s->dt_rank + 2 * s->state));
    bool normed = s->inner_norms || trait(n, BARE_STATE_NORMS);
    int dt = multiply(n, normed ? state_norm(n, s, (double)s->dt_rank, dbc) : shaped(n, false, ggml_f32((double)s->dt_rank, t, 1), V(dbc)), inner);
    dt = same(n, true, dt);
    int b = normed ? state_norm(n, s, (double)s->state, dbc) : V(dbc), c = normed ? state_norm(n, s, (double)s->state, dbc) : V(dbc);
    int scan = ggml_graph_op(n->g, false, ggml_f32(inner * t + state_numbers(n, s), 1, 1), SOURCES(V(conv), dt, b, c, STATE_IDS));
    move_other_states(n);
    ggml_graph_use(n->g, SOURCES(V(scan)));
    if (layer_at(n, n->layer)->ffn.experts == 0) llama_read_ahead(n);
    pick_early(n);
    int z = shaped(n, false, ggml_f32(inner, t, 1), V(in));
    int y = same(n, true, conv);
    y = ggml_graph_op(n->g, true, ggml_f32(inner, t, 1), SOURCES(V(scan), y));
    y = ggml_graph_op(n->g, false, ggml_f32(inner, t, 1), SOURCES(z, y));
    return V(multiply(n, y, n->hidden));
}

/* build_mamba2_layer up to the scan; what follows is asked for later, by whoever needs the output */
mamba2_parts llama_mamba2_scan(net *n, const vram_state *s, int columns, int x)
{
    double inner = (double)s->inner, heads = (double)s->heads, t = n->tokens, channels = inner + 2 * (double)(s->groups * s->state);
    mamba2_parts p;
    p.in = multiply(n, x, inner + channels + heads);
    p.conv = convolve(n, s, columns, p.in, s->conv_bias, true);
    int dt = same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(p.in)));
    p.scan = ggml_graph_op(n->g, false, ggml_f32(inner * t + state_numbers(n, s), 1, 1), SOURCES(V(p.conv), dt, V(p.conv), V(p.conv), STATE_IDS));
    move_other_states(n);
    ggml_graph_use(n->g, SOURCES(V(p.scan)));
    return p;
}

int llama_mamba2_out(net *n, const vram_state *s, mamba2_parts p)
{
    ggml_shape heads = ggml_f32((double)s->head_dim, (double)s->heads, n->tokens);
    int z = shaped(n, false, heads, V(p.in));
    int y = shaped(n, true, heads, V(p.conv));
    y = ggml_graph_op(n->g, true, heads, SOURCES(V(p.scan), y));
    y = ggml_graph_op(n->g, false, heads, SOURCES(z, y));
    if (s->gated_norm) y = same(n, true, shaped(n, true, ggml_f32((double)(s->inner / s->groups), (double)s->groups, n->tokens), V(y)));
    return multiply(n, V(y), n->hidden);
}

/* models/lfm2.cpp, build_shortconv_block */
int llama_short_convolution(net *n, const vram_state *s, int columns, int x)
{
    ggml_shape rows = ggml_f32(n->hidden, n->tokens, 1);
    int bcx = multiply(n, V(x), 3 * n->hidden);
    int bx = ggml_graph_op(n->g, true, rows, SOURCES(V(bcx), V(bcx)));
    double past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(n->tokens + past, n->hidden, 1), SOURCES(V(columns), V(bx)));
    ggml_graph_use(n->g, SOURCES(V(joined)));
    if (layer_at(n, n->layer)->ffn.experts == 0) llama_read_ahead(n);
    pick_early(n);
    int y = shaped(n, false, rows, joined);
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
    double past = ((double)s->conv_kernel - 1) * n->b->sequences;
    int joined = ggml_graph_op(n->g, false, ggml_f32(t + past, 2 * key + value, 1), SOURCES(V(columns), V(qkv)));
    ggml_graph_use(n->g, SOURCES(V(joined)));
    int state = ggml_graph_op(n->g, false, ggml_f32(state_numbers(n, s), 1, 1), SOURCES(STATE_IDS));
    move_other_states(n);
    int conv = same(n, true, shaped(n, false, ggml_f32(2 * key + value, t, 1), joined));
    int q = same(n, true, shaped(n, true, keys, V(conv)));
    if (repeat) q = V(shaped(n, false, repeated, V(q)));
    int k = same(n, true, shaped(n, true, keys, V(conv)));
    if (repeat) k = V(shaped(n, false, repeated, V(k)));
    int decay, beta;
    if (s->projections == VRAM_PROJECTIONS_FUSED) {
        int ba = multiply(n, x, 2 * heads);
        decay = V(same(n, true, same(n, true, same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(ba))))));
        beta = V(same(n, true, shaped(n, false, ggml_f32(heads, t, 1), V(ba))));
    } else {
        int a = multiply(n, x, heads);
        decay = V(same(n, true, same(n, true, shaped(n, true, ggml_f32(heads, t, 1), V(a)))));
        int b = multiply(n, x, heads);
        beta = shaped(n, true, ggml_f32(1, heads, t), V(b));
    }
    double rows = t + (double)s->key_head_dim * n->b->sequences;
    int out = ggml_graph_op(n->g, false, ggml_f32(value, rows, 1), SOURCES(q, k, V(conv), decay, beta, V(state)));
    ggml_graph_use(n->g, SOURCES(V(out)));
    int y = same(n, true, shaped(n, true, values, V(out)));
    int z = multiply(n, x, value);
    int gate = shaped(n, true, values, V(z));
    y = ggml_graph_op(n->g, true, values, SOURCES(y, gate));
    return V(multiply(n, V(y), n->hidden));
}
