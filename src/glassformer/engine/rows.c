/* Kernels for CPUs: what stands around a product of many rows in 8 bits, and attention within sequences that stand one
 * after another. The products themselves are left to the libraries.
 */
#include "native.h"

#define QUERIES 4 /* whose scores and sums stay in registers */

typedef struct {
    const float *x;   /* (rows, width) */
    uint8_t *rounded; /* (rows, width) */
    float *y;         /* (rows, width) */
    float *largest;   /* (rows) */
    const float *bias, *added; /* (width) and (rows, width), or none */
    long rows, width, gelu, next;
} RowsJob;

static void round_rows(void *given) {
    RowsJob *job = given;
    for (long row; (row = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->rows;)
        job->largest[row] = round_row(job->x + row * job->width, job->rounded + row * job->width, job->width);
}

INLINE Vector finished(Vector y, float scale, const float *bias, const float *added, int with_gelu) {
    y *= scale;
    if (bias) y += *(const Vector *)bias;
    if (with_gelu) y = gelu(y);
    if (added) y += *(const Vector *)added;
    return y;
}

INLINE void finish_row(const RowsJob *job, long row, int with_gelu) {
    const long width = job->width;
    const float scale = job->largest[row], *bias = job->bias, *added = job->added ? job->added + row * width : 0;
    float *y = job->y + row * width, last[3][LANES] = {0};
    long k = 0;
    for (; k + LANES <= width; k += LANES)
        *(Vector *)(y + k) = finished(*(Vector *)(y + k), scale, bias ? bias + k : 0, added ? added + k : 0, with_gelu);
    if (k == width) return;
    const size_t left = (width - k) * sizeof(float);
    memcpy(last[0], y + k, left);
    if (bias) memcpy(last[1], bias + k, left);
    if (added) memcpy(last[2], added + k, left);
    *(Vector *)last[0] = finished(*(Vector *)last[0], scale, last[1], last[2], with_gelu);
    memcpy(y + k, last[0], left);
}

static void finish_rows(void *given) {
    RowsJob *job = given;
    for (long row; (row = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->rows;)
        if (job->gelu) finish_row(job, row, 1);
        else finish_row(job, row, 0);
}

static void run_rows(Threads threads, unsigned count, void (*work)(void *), RowsJob *job) {
    job->next = 0;
    if (count > 1 && job->rows * job->width > SMALL) threads(work, job, count, 0);
    else work(job);
}

/* Each row in 8 bits, over the largest size in it. */
void glassformer_round(Threads threads, unsigned count, RowsJob *job) { run_rows(threads, count, round_rows, job); }

/* y = added + activation(largest · y + bias) */
void glassformer_finish(Threads threads, unsigned count, RowsJob *job) { run_rows(threads, count, finish_rows, job); }

typedef struct {
    const float *query;        /* (tokens, heads · group, width) */
    const float *key, *value;  /* (tokens, heads, width) */
    float *context;            /* (tokens, heads · group, width) */
    const int32_t *boundaries; /* (sequences + 1) */
    long query_stride, key_stride, value_stride; /* from token to token */
    long sequences, heads, width;
    long group;         /* queries that share a head of keys and values */
    long before, after; /* tokens on either side of itself that one looks at */
    long longest;       /* sequence */
    float scale;
    long next;
} Packed;

typedef struct {
    float *keys;    /* (width, padded): transposed */
    float *weights; /* (QUERIES, padded) */
    long padded;    /* length of the sequence, and some more */
} Held;

/* Scores of some queries against some vectors of keys. */
INLINE void score(const Packed *job, const Held *held, const float *query, long s, int queries, int vectors) {
    Vector sums[QUERIES][2] = {0};
    for (long k = 0; k < job->width; k++) {
        Vector keys[2];
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) keys[v] = *(const Vector *)(held->keys + k * held->padded + s + v * LANES);
#pragma GCC unroll 4
        for (int q = 0; q < queries; q++)
#pragma GCC unroll 2
            for (int v = 0; v < vectors; v++) sums[q][v] += query[q * job->query_stride + k] * keys[v];
    }
#pragma GCC unroll 4
    for (int q = 0; q < queries; q++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++)
            *(Vector *)(held->weights + q * held->padded + s + v * LANES) = sums[q][v] * job->scale;
}

/* exp(weight - largest) over [first, last), zeros elsewhere in [from, to); gives the sum of them. */
INLINE float softmax(float *weights, long from, long first, long last, long to) {
    for (long s = from; s < first; s++) weights[s] = -INFINITY;
    for (long s = last; s < to; s++) weights[s] = -INFINITY;
    Vector most = {0}, sum = {0};
    most -= INFINITY;
    for (long s = from; s < to; s += LANES) {
        const Vector here = *(const Vector *)(weights + s);
        most = choose(here > most, here, most);
    }
    float largest = -INFINITY;
    for (int lane = 0; lane < LANES; lane++) largest = most[lane] > largest ? most[lane] : largest;
    for (long s = from; s < to; s += LANES) {
        const Vector here = *(const Vector *)(weights + s);
        const Vector found = choose(here == -INFINITY, (Vector){0}, exponential(here - largest));
        sum += *(Vector *)(weights + s) = found;
    }
    return total(sum);
}

/* Some lanes of what some queries gather. */
INLINE void gather(const Packed *job, const Held *held, const float *value, long first, long last, float *context,
                   const float *sums, int queries, int vectors) {
    const long step = job->heads * job->group * job->width;
    Vector found[QUERIES][2] = {0};
    for (long s = first; s < last; s++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) {
            const Vector here = *(const Vector *)(value + s * job->value_stride + v * LANES);
#pragma GCC unroll 4
            for (int q = 0; q < queries; q++) found[q][v] += held->weights[q * held->padded + s] * here;
        }
#pragma GCC unroll 4
    for (int q = 0; q < queries; q++)
#pragma GCC unroll 2
        for (int v = 0; v < vectors; v++) *(Vector *)(context + q * step + v * LANES) = found[q][v] / sums[q];
}

/* Some queries from token t on of one head. */
INLINE void attend_some(const Packed *job, const Held *held, const float *query, const float *value, float *context,
                        long t, long length, int queries) {
    const long step = job->heads * job->group * job->width, width = job->width;
    const long first = t - job->before > 0 ? t - job->before : 0;
    const long end = t + queries + job->after, last = end < length ? end : length;
    const long from = first / LANES * LANES, to = (last + LANES - 1) / LANES * LANES;
    float sums[QUERIES];
    long s = from;
    for (; s + 2 * LANES <= to; s += 2 * LANES) score(job, held, query, s, queries, 2);
    for (; s < to; s += LANES) score(job, held, query, s, queries, 1);
    for (int q = 0; q < queries; q++) {
        const long own = t + q - job->before, stop = t + q + 1 + job->after;
        sums[q] = softmax(held->weights + q * held->padded, from, own > 0 ? own : 0, stop < length ? stop : length, to);
    }
    long k = 0;
    for (; k + 2 * LANES <= width; k += 2 * LANES) gather(job, held, value + k, first, last, context + k, sums, queries, 2);
    for (; k + LANES <= width; k += LANES) gather(job, held, value + k, first, last, context + k, sums, queries, 1);
    for (; k < width; k++)
        for (int q = 0; q < queries; q++) {
            float found = 0;
            for (long s = first; s < last; s++) found += held->weights[q * held->padded + s] * value[s * job->value_stride + k];
            context[q * step + k] = found / sums[q];
        }
}

/* One head of keys of one sequence, and the queries that share it. */
static void attend_sequence(const Packed *job, long sequence, long head, Held *held) {
    const long start = job->boundaries[sequence], length = job->boundaries[sequence + 1] - start, width = job->width;
    const float *key = job->key + start * job->key_stride + head * width;
    const float *value = job->value + start * job->value_stride + head * width;
    held->padded = (length + LANES - 1) / LANES * LANES;
    for (long s = 0; s < held->padded; s++)
        for (long k = 0; k < width; k++)
            held->keys[k * held->padded + s] = s < length ? key[s * job->key_stride + k] : 0;
    for (long q = head * job->group; q < (head + 1) * job->group; q++) {
        const float *query = job->query + start * job->query_stride + q * width;
        float *context = job->context + (start * job->heads * job->group + q) * width;
        const long step = job->heads * job->group * width;
        long t = 0;
        for (; t + QUERIES <= length; t += QUERIES)
            attend_some(job, held, query + t * job->query_stride, value, context + t * step, t, length, QUERIES);
        for (; t < length; t++)
            attend_some(job, held, query + t * job->query_stride, value, context + t * step, t, length, 1);
    }
}

static void attend_sequences(void *given) {
    Packed *job = given;
    const long most = job->longest + LANES;
    Held held = {room(job->width * most * sizeof(float)), room(QUERIES * most * sizeof(float)), 0};
    for (long part; (part = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->sequences * job->heads;)
        attend_sequence(job, part / job->heads, part % job->heads, &held);
    free(held.keys);
    free(held.weights);
}

/* softmax(q kᵀ · scale) v within each sequence, for all its tokens. */
void glassformer_attend_packed(Threads threads, unsigned count, Packed *job) {
    job->next = 0;
    if (count > 1 && job->boundaries[job->sequences] * job->heads * job->width > SMALL) threads(attend_sequences, job, count, 0);
    else attend_sequences(job);
}

/* As glassformer_check. */
void glassformer_check_rows(void) {
    enum { WIDTH = 48 };
    static float x[3 * WIDTH], y[3 * WIDTH], largest[3];
    static uint8_t rounded[3 * WIDTH];
    static const int32_t boundaries[2] = {0, 3};
    RowsJob job = {x, rounded, y, largest, x, x, 3, WIDTH, 1, 0};
    glassformer_round(0, 1, &job);
    glassformer_finish(0, 1, &job);
    Packed packed = {x, x, x, y, boundaries, WIDTH, WIDTH, WIDTH, 1, 1, WIDTH, 1, 2, 2, 3, 1, 0};
    glassformer_attend_packed(0, 1, &packed);
}
