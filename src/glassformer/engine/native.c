/* Kernels for CPUs: linear layers for few rows, in 32 or 8 bits, the next token's attention, beams that are reordered,
 * and digests of weights.
 *
 * Few rows are bound by memory and by the cost of a call: each weight is read once, from start to end, for all rows, and
 * what stands around a product is done in the same call. Each has a plain version in Python, which says what it computes
 * and takes its place where this cannot be compiled. native.py builds and calls them.
 */
#include "native.h"
#ifdef __AVX512F__
#include <immintrin.h>
#endif

#ifdef __AVX512F__
#define OUTPUTS 4 /* of a tile, whose sums stay in registers */
#else
#define OUTPUTS 2
#endif
#define ROWS 4       /* of a tile */
#define TILE (OUTPUTS * ROWS)
#define AHEAD 2      /* tiles that are on their way from memory */
#define PIECES 4     /* of a layer's outputs for each thread, which takes the next when it is done */
#define HELD 65536   /* numbers that a thread holds at a time */
#define WORDS 1024   /* of a stretch of a digest */

typedef struct {
    const Linear *linear;
    const float *x;         /* (rows, inputs) */
    const uint8_t *rounded; /* the same in 8 bits, of which each row has its */
    const float *scale;     /* (rows) */
    const float *added;     /* (rows, outputs) or none */
    float *y;               /* (rows, outputs) */
    long rows, piece, next;
} LinearJob;

typedef struct {
    long from, to; /* of a tile's outputs */
} Share;

/* Products of some outputs' weights with some rows. On the way a share of a later tile's weights is fetched. */
INLINE void multiply_float(const float *w, const float *x, long n, int outputs, int rows, Share share, float *sums) {
    Vector parts[TILE];
    long k = 0;
#pragma GCC unroll 16
    for (int i = 0; i < outputs * rows; i++) parts[i] = (Vector){0};
    for (; k + LANES <= n; k += LANES) {
        Vector weights[OUTPUTS];
#pragma GCC unroll 4
        for (int e = 0; e < outputs; e++) {
            weights[e] = *(const Vector *)(w + e * n + k);
            if (e >= share.from && e < share.to) __builtin_prefetch(w + (AHEAD * outputs + e) * n + k, 0, 2);
        }
#pragma GCC unroll 4
        for (int r = 0; r < rows; r++) {
            const Vector row = *(const Vector *)(x + r * n + k);
#pragma GCC unroll 4
            for (int e = 0; e < outputs; e++) parts[e * rows + r] += weights[e] * row;
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < outputs * rows; i++) {
        sums[i] = total(parts[i]);
        for (long left = k; left < n; left++) sums[i] += w[i / rows * n + left] * x[i % rows * n + left];
    }
}

INLINE void multiply_8bit(const int8_t *w, const uint8_t *x, long n, int outputs, int rows, Share share, int32_t *sums) {
    int32_t parts[TILE] = {0};
    for (long k = share.from * n; k < share.to * n; k += LINE) __builtin_prefetch(w + outputs * n + k);
    for (long k = 0; k < n; k++)
        for (int e = 0; e < outputs; e++)
            for (int r = 0; r < rows; r++) parts[e * rows + r] += (int)w[e * n + k] * (int)x[r * n + k];
    for (int i = 0; i < outputs * rows; i++) sums[i] = parts[i];
}

INLINE void tile(const LinearJob *job, long output, int outputs, long row, int rows) {
    const Linear *linear = job->linear;
    const long n = linear->inputs, turns = job->rows / ROWS + job->rows % ROWS, turn = row / ROWS + row % ROWS;
    const Share share = {turn * outputs / turns, (turn + 1) * outputs / turns};
    float sums[TILE];
    if (linear->weight) {
        multiply_float(linear->weight + output * n, job->x + row * n, n, outputs, rows, share, sums);
    } else {
        int32_t whole[TILE];
        multiply_8bit(linear->rounded + output * n, job->rounded + row * n, n, outputs, rows, share, whole);
        for (int i = 0; i < outputs * rows; i++) {
            const long to = output + i / rows;
            sums[i] = (float)(whole[i] - linear->centre[to]) * linear->scale[to] * job->scale[row + i % rows];
        }
    }
    for (int i = 0; i < outputs * rows; i++) {
        const long to = output + i / rows, place = (row + i % rows) * linear->outputs + to;
        const float y = linear->bias ? sums[i] + linear->bias[to] : sums[i];
        job->y[place] = job->added ? y + job->added[place] : y;
    }
}

static void multiply(void *given) {
    LinearJob *job = given;
    const long outputs = job->linear->outputs;
    for (;;) {
        long output = __atomic_fetch_add(&job->next, job->piece, __ATOMIC_RELAXED);
        const long end = output + job->piece < outputs ? output + job->piece : outputs;
        if (output >= outputs) return;
        for (; output + OUTPUTS <= end; output += OUTPUTS) {
            long row = 0;
            for (; row + ROWS <= job->rows; row += ROWS) tile(job, output, OUTPUTS, row, ROWS);
            for (; row < job->rows; row++) tile(job, output, OUTPUTS, row, 1);
        }
        for (; output < end; output++)
            for (long row = 0; row < job->rows; row++) tile(job, output, 1, row, 1);
    }
}

void glassformer_linear(Threads threads, unsigned count, const Linear *linear, const Norm *norm, const float *x,
                        const float *added, float *y, long rows) {
    const long n = linear->inputs, tiles = linear->outputs / OUTPUTS;
    float *normal = room(norm ? rows * n * sizeof(float) : 0), *scale = room(rows * sizeof(float));
    uint8_t *rounded = room(linear->weight ? 0 : rows * n);
    if (norm)
        for (long r = 0; r < rows; r++) normalise(norm, x + r * n, normal + r * n, n);
    x = norm ? normal : x;
    if (!linear->weight)
        for (long r = 0; r < rows; r++) scale[r] = round_row(x + r * n, rounded + r * n, n) * (float)(1.0 / STEPS);
    LinearJob job = {linear, x, rounded, scale, added, y, rows, (tiles / (count * PIECES) + 1) * OUTPUTS, 0};
    if (count > 1 && n * linear->outputs > SMALL) threads(multiply, &job, count, 0);
    else multiply(&job);
    free(normal);
    free(scale);
    free(rounded);
}

INLINE float dot(const float *x, const float *y, long width) {
    Vector parts = {0};
    long k = 0;
    for (; k + LANES <= width; k += LANES) parts += *(const Vector *)(x + k) * *(const Vector *)(y + k);
    float sum = total(parts);
    for (; k < width; k++) sum += x[k] * y[k];
    return sum;
}

INLINE void add(float *sum, float weight, const float *x, long width) {
    long k = 0;
    for (; k + LANES <= width; k += LANES) *(Vector *)(sum + k) += weight * *(const Vector *)(x + k);
    for (; k < width; k++) sum[k] += weight * x[k];
}

/* Pairs (i, i + width / 2) of each head, turned by their angles; or the same numbers. */
static void turn(const Attention *job, long row, const float *x, float *y, long heads) {
    const long width = job->width, half = width / 2;
    if (!job->cosine) {
        memcpy(y, x, sizeof(float) * heads * width);
        return;
    }
    const float *cosine = job->cosine + row * job->turn_stride, *sine = job->sine + row * job->turn_stride;
    for (long h = 0; h < heads; h++)
        for (long k = 0; k < half; k++) {
            const float one = x[h * width + k], other = x[h * width + half + k];
            y[h * width + k] = one * cosine[k] - other * sine[k];
            y[h * width + half + k] = other * cosine[k] + one * sine[k];
        }
}

/* Some heads of keys of a row, and the queries that share them: its cache is read from start to end. */
static void attend_heads(const Attention *job, long row, long head, long heads, float *query, float *weights) {
    const long width = job->width, step = job->heads * width, here = head * width, group = job->group;
    const long length = job->length, last = (length - 1) * step, queries = heads * group;
    float *keys = job->keys + row * job->cache_stride + here, *values = job->values + row * job->cache_stride + here;
    const uint8_t *keep = job->keep ? job->keep + row * job->keep_stride : 0;
    float *context = job->context + (row * step + here) * group;
    turn(job, row, job->query + row * job->query_stride + here * group, query, queries);
    turn(job, row, job->key + row * job->key_stride + here, keys + last, heads);
    memcpy(values + last, job->value + row * job->value_stride + here, sizeof(float) * heads * width);
    memset(context, 0, sizeof(float) * queries * width);
    for (long t = job->first; t < length; t++)
        for (long q = 0; q < queries; q++) {
            const float score = dot(query + q * width, keys + t * step + q / group * width, width);
            weights[q * length + t] = keep && !keep[t] ? -INFINITY : score * job->scale;
        }
    for (long q = 0; q < queries; q++) {
        float largest = -INFINITY, sum = 0, *own = weights + q * length;
        for (long t = job->first; t < length; t++) largest = fmaxf(largest, own[t]);
        if (largest == -INFINITY) largest = 0; /* nothing is kept, and nothing is seen */
        for (long t = job->first; t < length; t++) sum += own[t] = expf(own[t] - largest);
        for (long t = job->first; t < length; t++) own[t] /= sum == 0 ? 1 : sum;
    }
    for (long t = job->first; t < length; t++)
        for (long q = 0; q < queries; q++)
            add(context + q * width, weights[q * length + t], values + t * step + q / group * width, width);
}

static void attend(void *given) {
    Attention *job = given;
    const long parts = (job->heads + job->together - 1) / job->together;
    const long queries = job->together * job->group;
    float *weights = room(queries * job->length * sizeof(float)), *query = room(queries * job->width * sizeof(float));
    for (long part; (part = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < job->batch * parts;) {
        const long first = part % parts * job->together, left = job->heads - first;
        attend_heads(job, part / parts, first, left < job->together ? left : job->together, query, weights);
    }
    free(weights);
    free(query);
}

void glassformer_attend(Threads threads, unsigned count, Attention *job) {
    const long fit = 1 + HELD / (job->length * job->group), share = 1 + (job->heads - 1) * job->batch / count;
    job->next = 0;
    job->together = fit < share ? fit : share;
    if (job->together > job->heads) job->together = job->heads;
    const long work = job->batch * (job->length - job->first) * job->heads * job->group * job->width;
    if (count > 1 && work > SMALL) threads(attend, job, count, 0);
    else attend(job);
}

typedef struct {
    float *keys, *values;                 /* (layers, batch, room, width) */
    const int64_t *rows;                  /* (batch): which row each goes on from, of the same group */
    long layers, batch, group_size, used, width;
    long layer_stride, row_stride, next;
} Reorder;

/* One group of one layer, some tokens at a time. */
static void reorder_group(const Reorder *job, float *cache, long group, float *moving, long some) {
    const long first = group * job->group_size, stride = job->row_stride, width = job->width;
    for (long from = 0; from < job->used; from += some) {
        const long tokens = job->used - from < some ? job->used - from : some;
        const size_t bytes = sizeof(float) * tokens * width;
        for (long i = 0; i < job->group_size; i++)
            if (job->rows[first + i] != first + i)
                memcpy(moving + i * some * width, cache + job->rows[first + i] * stride + from * width, bytes);
        for (long i = 0; i < job->group_size; i++)
            if (job->rows[first + i] != first + i)
                memcpy(cache + (first + i) * stride + from * width, moving + i * some * width, bytes);
    }
}

static void reorder(void *given) {
    Reorder *job = given;
    const long groups = job->batch / job->group_size, some = 1 + HELD / (job->group_size * job->width);
    float *moving = room(job->group_size * some * job->width * sizeof(float));
    for (long part; (part = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED)) < 2 * job->layers * groups;) {
        const long layer = part / groups;
        float *cache = layer < job->layers ? job->keys : job->values;
        reorder_group(job, cache + layer % job->layers * job->layer_stride, part % groups, moving, some);
    }
    free(moving);
}

/* Permute the rows of a cache within their groups. */
void glassformer_reorder(Threads threads, unsigned count, Reorder *job) {
    job->next = 0;
    if (count > 1 && job->layers * job->batch * job->used * job->width > SMALL) threads(reorder, job, count, 0);
    else reorder(job);
}

typedef struct {
    const void *const *starts; /* (tensors) */
    const int64_t *sizes;      /* (tensors): bytes */
    uint64_t *digests;         /* (tensors) */
    long tensors, next;
} Digests;

/* Every word times a number of its own: to change one word, or to swap two, always changes the sum. */
INLINE uint64_t digest_words(const Bits *words, const uint32_t *own, long count) {
    uint64_t sum = 0;
    long j = 0;
#ifdef __AVX512F__ /* compilers take a product of 64 bits, which is three times as slow */
    __m512i even = _mm512_setzero_si512(), odd = even;
    for (; j + 16 <= count; j += 16) {
        __builtin_prefetch(words + j + WORDS, 0, 2);
        const __m512i x = _mm512_loadu_si512(words + j), y = _mm512_loadu_si512(own + j);
        even = _mm512_add_epi64(even, _mm512_mul_epu32(x, y));
        odd = _mm512_add_epi64(odd, _mm512_mul_epu32(_mm512_srli_epi64(x, 32), _mm512_srli_epi64(y, 32)));
    }
    sum = _mm512_reduce_add_epi64(_mm512_add_epi64(even, odd));
#endif
    for (; j < count; j++) sum += (uint64_t)words[j] * own[j];
    return sum;
}

INLINE uint64_t odd_number(uint64_t of) { /* splitmix64 */
    of = (of + 0x9E3779B97F4A7C15u) * 0xBF58476D1CE4E5B9u;
    return (of ^ of >> 29) * 0x94D049BB133111EBu | 1;
}

/* A piece of HELD words, each stretch of WORDS with a number of its own; the last bytes are a word as well. */
static uint64_t digest_piece(const char *start, const uint32_t *own, int64_t bytes, int64_t piece) {
    uint64_t sum = 0;
    for (int64_t from = 0; from < bytes; from += 4 * WORDS) {
        const int64_t here = bytes - from < 4 * WORDS ? bytes - from : 4 * WORDS;
        uint32_t last = 0;
        memcpy(&last, start + from + here / 4 * 4, here % 4);
        const uint64_t found = digest_words((const Bits *)(start + from), own, here / 4) + last;
        sum += found * odd_number(piece * (HELD / WORDS) + from / (4 * WORDS));
    }
    return sum;
}

static void digest(void *given) {
    Digests *job = given;
    const int64_t most = 4 * (int64_t)HELD;
    uint32_t own[WORDS]; /* of each word: all different, and none 0 */
    for (uint32_t j = 0; j < WORDS; j++) own[j] = j * 0x9E3779B1u ^ 0x85EBCA6Bu;
    long mine = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED), place = 0;
    for (long i = 0; i < job->tensors; i++)
        for (int64_t piece = 0; piece * most < job->sizes[i]; piece++, place++)
            if (place == mine) {
                const int64_t left = job->sizes[i] - piece * most;
                const char *start = (const char *)job->starts[i] + piece * most;
                const uint64_t found = digest_piece(start, own, left < most ? left : most, piece);
                __atomic_fetch_add(&job->digests[i], found, __ATOMIC_RELAXED); /* in any order */
                mine = __atomic_fetch_add(&job->next, 1, __ATOMIC_RELAXED);
            }
}

/* A number for each tensor that tells all its bits and where they stand. */
void glassformer_digest(Threads threads, unsigned count, Digests *job) {
    job->next = 0;
    if (count > 1) threads(digest, job, count, 0);
    else digest(job);
}

/* Run once on next to nothing, in a process of its own: a compiler may use what a virtual machine does not let through. */
void glassformer_check(void) {
    enum { WIDTH = 192 };
    static int8_t weight[WIDTH * WIDTH];
    static int32_t centre[WIDTH];
    static float ones[WIDTH], x[2 * WIDTH], y[2 * WIDTH], keys[2 * WIDTH], values[2 * WIDTH];
    const Linear whole = {ones, 0, 0, 0, ones, WIDTH, 1}, rounded = {0, weight, ones, centre, ones, WIDTH, WIDTH};
    const Norm norm = {ones, ones, 1e-5f, 1};
    glassformer_linear(0, 1, &whole, &norm, x, x, y, 2);
    glassformer_linear(0, 1, &rounded, &norm, x, x, y, 2);
    Attention job = {x, x, x, keys, values, 0, ones, ones, y, WIDTH, WIDTH, WIDTH, 2 * WIDTH, 0, 0, 1, 2, 3, WIDTH / 3, 1, 0, 1, 0, 0};
    glassformer_attend(0, 1, &job);
    const int64_t rows[2] = {1, 0};
    Reorder swap = {keys, values, rows, 1, 2, 2, 1, WIDTH, 0, WIDTH, 0};
    glassformer_reorder(0, 1, &swap);
    const void *starts[1] = {x};
    const int64_t sizes[1] = {sizeof x - 1};
    uint64_t found[1] = {0};
    Digests digests = {starts, sizes, found, 1, 0};
    glassformer_digest(0, 1, &digests);
}
