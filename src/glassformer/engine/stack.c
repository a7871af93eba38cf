/* The layers of a decoder for the next token of few rows, in one call: what their parts do one after another. */
#include "native.h"

enum { RELU, GELU, TANH_GELU, SILU }; /* native.py has the same order */

typedef struct {
    const Linear *project, *output, *up, *down; /* project: query, key and value; up: with its gate before it, if any */
    const Norm *attention_norm, *feed_forward_norm;
    const Norm *query_norm, *key_norm; /* of each head, or none */
    long pre_norm, gated, activation;
    long before; /* tokens that one looks back at */
    long rotary; /* which of the rotations turns it, or -1 */
    float scale;
} Layer;

typedef struct {
    const Layer *layers;
    const Norm *final_norm;              /* or none */
    const float *x;                      /* (rows, width) */
    float *y;                            /* (rows, width) */
    const float *const *cosines, *const *sines; /* of each rotation */
    const Attention *attention;          /* of the first layer, but for what its Layer says, and its tokens */
    long count, stride;                  /* layers, and how far their keys and values lie apart */
} Stack;

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

/* Each row's new token passes a layer; its keys and values join the cache. */
static void pass_layer(Threads threads, unsigned count, const Layer *layer, Attention *attention, const float *x, float *y) {
    const long rows = attention->batch, width = layer->output->outputs, inner = layer->down->inputs;
    const long heads = attention->heads * attention->group, all = layer->project->outputs;
    const long queries = heads * attention->width, keys = attention->heads * attention->width;
    const Norm *first = layer->pre_norm ? layer->attention_norm : 0, *second = layer->pre_norm ? layer->feed_forward_norm : 0;
    float *projected = room(rows * all * sizeof(float)), *context = room(rows * queries * sizeof(float));
    float *middle = room(rows * width * sizeof(float)), *wide = room(rows * layer->up->outputs * sizeof(float));
    float *neurons = room(rows * inner * sizeof(float));

    glassformer_linear(threads, count, layer->project, first, x, 0, projected, rows);
    normalise_heads(layer->query_norm, projected, rows, all, heads, attention->width);
    normalise_heads(layer->key_norm, projected + queries, rows, all, attention->heads, attention->width);
    attention->query = projected, attention->key = projected + queries, attention->value = projected + queries + keys;
    attention->query_stride = attention->key_stride = attention->value_stride = all;
    attention->context = context;
    glassformer_attend(threads, count, attention);
    glassformer_linear(threads, count, layer->output, 0, context, x, middle, rows);
    if (!layer->pre_norm) normalise_rows(layer->attention_norm, middle, rows, width);
    glassformer_linear(threads, count, layer->up, second, middle, 0, wide, rows);
    activate(wide, neurons, rows, inner, layer->gated, layer->activation);
    glassformer_linear(threads, count, layer->down, 0, neurons, middle, y, rows);
    if (!layer->pre_norm) normalise_rows(layer->feed_forward_norm, y, rows, width);

    free(projected), free(context), free(middle), free(wide), free(neurons);
}

/* y = final_norm(layers(x)), for one new token of each row. */
void glassformer_stack(Threads threads, unsigned count, const Stack *stack) {
    const long rows = stack->attention->batch, width = stack->layers->output->outputs, last = stack->attention->length - 1;
    const size_t bytes = rows * width * sizeof(float);
    float *held[2] = {room(bytes), room(bytes)};
    const float *x = stack->x;
    for (long number = 0; number < stack->count; number++) {
        const Layer *layer = stack->layers + number;
        Attention attention = *stack->attention;
        attention.keys += number * stack->stride, attention.values += number * stack->stride;
        attention.scale = layer->scale;
        attention.first = last > layer->before ? last - layer->before : 0;
        attention.cosine = layer->rotary < 0 ? 0 : stack->cosines[layer->rotary];
        attention.sine = layer->rotary < 0 ? 0 : stack->sines[layer->rotary];
        pass_layer(threads, count, layer, &attention, x, held[number % 2]);
        x = held[number % 2];
    }
    memcpy(stack->y, x, bytes);
    if (stack->final_norm) normalise_rows(stack->final_norm, stack->y, rows, width);
    free(held[0]), free(held[1]);
}
