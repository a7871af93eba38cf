/* A whole layer of a Transformer for the next token of few rows: what its parts do one after another, in one call. */
#include "native.h"

enum { RELU, GELU, TANH_GELU, SILU }; /* native.py has the same order */

typedef struct {
    const Linear *project, *output, *up, *down; /* project: query, key and value; up: with its gate before it, if any */
    const Norm *attention_norm, *feed_forward_norm;
    const Norm *query_norm, *key_norm; /* of each head, or none */
    const float *x;                    /* (rows, width) */
    float *y;                          /* (rows, width) */
    Attention *attention;              /* all of it but queries, keys, values and context */
    long pre_norm, gated, activation;
} Layer;

INLINE Vector activated(Vector x, long activation) {
    if (activation == RELU) return choose(x < 0.0f, (Vector){0}, x); /* what is no number stays none */
    if (activation == GELU) return gelu(x);
    Vector inner = x;
    if (activation == TANH_GELU) inner = 1.5957691216f * (x + 0.044715f * x * x * x);
    return x / (1.0f + exponential(-inner));
}

/* (rows, width), or (rows, 2 · width) of which the first half is the gate -> (rows, width) */
static void activate(float *x, float *y, long rows, long width, long gated, long activation) {
    for (long row = 0; row < rows; row++) {
        const float *from = x + row * width * (gated ? 2 : 1), *times = gated ? from + width : 0;
        for (long k = 0; k < width; k += LANES) {
            const long count = width - k < LANES ? width - k : LANES;
            Vector here = {0}, other = {0};
            if (count == LANES) here = *(const Vector *)(from + k);
            else memcpy(&here, from + k, count * sizeof(float));
            if (times && count == LANES) other = *(const Vector *)(times + k);
            else if (times) memcpy(&other, times + k, count * sizeof(float));
            here = activated(here, activation);
            if (times) here *= other;
            if (count == LANES) *(Vector *)(y + row * width + k) = here;
            else memcpy(y + row * width + k, &here, count * sizeof(float));
        }
    }
}

static void normalise_rows(const Norm *norm, float *x, long rows, long width) {
    for (long row = 0; row < rows; row++) normalise(norm, x + row * width, x + row * width, width);
}

static void normalise_heads(const Norm *norm, float *x, long rows, long stride, long heads, long width) {
    for (long row = 0; norm && row < rows; row++) normalise_rows(norm, x + row * stride, heads, width);
}

/* Each row's new token passes the layer; its keys and values join the cache. */
void glassformer_layer(Threads threads, unsigned count, const Layer *layer) {
    Attention *attention = layer->attention;
    const long rows = attention->batch, width = layer->output->outputs, inner = layer->down->inputs;
    const long heads = attention->heads * attention->group, all = layer->project->outputs;
    const long queries = heads * attention->width, keys = attention->heads * attention->width;
    const Norm *first = layer->pre_norm ? layer->attention_norm : 0, *second = layer->pre_norm ? layer->feed_forward_norm : 0;
    float *projected = room(rows * all * sizeof(float)), *context = room(rows * queries * sizeof(float));
    float *middle = room(rows * width * sizeof(float)), *wide = room(rows * layer->up->outputs * sizeof(float));
    float *neurons = room(rows * inner * sizeof(float));

    glassformer_linear(threads, count, layer->project, first, layer->x, 0, projected, rows);
    normalise_heads(layer->query_norm, projected, rows, all, heads, attention->width);
    normalise_heads(layer->key_norm, projected + queries, rows, all, attention->heads, attention->width);
    attention->query = projected, attention->key = projected + queries, attention->value = projected + queries + keys;
    attention->query_stride = attention->key_stride = attention->value_stride = all;
    attention->context = context;
    glassformer_attend(threads, count, attention);
    glassformer_linear(threads, count, layer->output, 0, context, layer->x, middle, rows);
    if (!layer->pre_norm) normalise_rows(layer->attention_norm, middle, rows, width);
    glassformer_linear(threads, count, layer->up, second, middle, 0, wide, rows);
    activate(wide, neurons, rows, inner, layer->gated, layer->activation);
    glassformer_linear(threads, count, layer->down, 0, neurons, middle, layer->y, rows);
    if (!layer->pre_norm) normalise_rows(layer->feed_forward_norm, layer->y, rows, width);

    free(projected), free(context), free(middle), free(wide), free(neurons);
}
