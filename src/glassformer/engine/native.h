/* What the kernels for CPUs share. */
#pragma once
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#ifdef __AVX512F__
#define LANES 16
#else
#define LANES 8
#endif
#define LINE 64      /* bytes of the cache */
#define SMALL 16384  /* numbers, not worth a second thread */
#define CENTRE (STEPS + 1) /* native.py says how many STEPS inputs have on either side */

typedef float Vector __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t Integers __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef uint32_t Bits __attribute__((may_alias));
typedef void (*Threads)(void (*work)(void *), void *job, unsigned threads, unsigned flags);

/* Memory that begins where a line of the cache does: what lies across two lines is read twice. */
static inline void *room(size_t bytes) {
    void *found = aligned_alloc(LINE, (bytes + LINE) / LINE * LINE);
    if (!found) abort();
    return found;
}

INLINE float total(Vector x) {
    float sum = 0;
    for (int lane = 0; lane < LANES; lane++) sum += x[lane];
    return sum;
}

/* The largest size in a row, and at least that of the smallest ordinary number; NaN where not all are finite. */
static inline float largest(const float *x, long width) {
    union { float number; uint32_t bits; } most = {FLT_MIN}; /* as bits, numbers above 0 keep their order */
    for (long k = 0; k < width; k++) {
        const uint32_t size = ((const Bits *)x)[k] & 0x7fffffff;
        most.bits = size > most.bits ? size : most.bits;
    }
    return most.bits < 0x7f800000 ? most.number : NAN;
}

/* Round to STEPS on either side of CENTRE; give the largest size in the row. */
static inline float round_row(const float *x, uint8_t *rounded, long width) {
    const float most = largest(x, width), inverse = 1 / (float)(1.0 / STEPS);
    const int broken = isnan(most);
    for (long k = 0; k < width; k++)
        rounded[k] = broken ? CENTRE : (uint8_t)((int)rintf(x[k] / most * inverse) + CENTRE);
    return most;
}

typedef struct {
    const float *weight;   /* (outputs, inputs), or none: then */
    const int8_t *rounded; /* the same in 8 bits */
    const float *scale;    /* (outputs) */
    const int32_t *centre; /* (outputs): what a row of CENTREs gives */
    const float *bias;     /* (outputs) or none */
    long inputs, outputs;
} Linear;

typedef struct {
    const float *weight, *bias; /* (inputs); no bias: zeros */
    float eps;
    long centred; /* whether the mean is taken off first, as an RMS norm does not */
} Norm;

typedef struct {
    const float *query;         /* (batch, heads · group, width) */
    const float *key, *value;   /* (batch, heads, width) */
    float *keys, *values;       /* (batch, length, heads, width) */
    const uint8_t *keep;        /* (batch, length) or none */
    const float *cosine, *sine; /* (batch, width / 2) by which queries and keys are turned, or none */
    float *context;             /* (batch, heads · group, width) */
    long query_stride, key_stride, value_stride, cache_stride, keep_stride, turn_stride; /* from row to row */
    long batch, length, heads, width;
    long group; /* queries that share a head of keys and values */
    long first; /* token that is looked at */
    float scale;
    long next, together; /* heads of keys that are read at once */
} Attention;

/* (x - mean) / deviation · weight + bias; y may be x. */
static inline void normalise(const Norm *norm, const float *x, float *y, long width) {
    float mean = 0, variance = 0;
    if (norm->centred) {
        for (long k = 0; k < width; k++) mean += x[k];
        mean /= width;
    }
    for (long k = 0; k < width; k++) variance += (x[k] - mean) * (x[k] - mean);
    const float factor = 1 / sqrtf(variance / width + norm->eps);
    for (long k = 0; k < width; k++) y[k] = (x[k] - mean) * factor * norm->weight[k];
    if (norm->bias)
        for (long k = 0; k < width; k++) y[k] += norm->bias[k];
}

INLINE Vector choose(Integers first, Vector one, Vector other) { /* where `first` is all ones, and where it is 0 */
    return (Vector)((first & (Integers)one) | (~first & (Integers)other));
}

/* exp within two units of the last place, from -87 to 88; beyond them as there. */
INLINE Vector exponential(Vector x) {
    x = choose(x < -87.0f, (Vector){0} - 87.0f, choose(x > 88.0f, (Vector){0} + 88.0f, x));
    const Vector turns = x * 1.44269504f;
    const Vector half = choose(turns < 0.0f, (Vector){0} - 0.5f, (Vector){0} + 0.5f);
    const Integers whole = __builtin_convertvector(turns + half, Integers);
    const Vector count = __builtin_convertvector(whole, Vector), left = x - count * 0.693359375f - count * -2.12194440e-4f;
    Vector sum = left * 1.9875691500e-4f + 1.3981999507e-3f;
    sum = sum * left + 8.3334519073e-3f;
    sum = sum * left + 4.1665795894e-2f;
    sum = sum * left + 1.6666665459e-1f;
    sum = sum * left + 5.0000001201e-1f;
    sum = sum * left * left + left + 1.0f;
    return choose(x == x, (Vector)((Integers)sum + (whole << 23)), x); /* what is no number stays none */
}

/* x/2 · (1 + erf(x / √2)), erf by Abramowitz and Stegun 7.1.26: within 1.5e-7. */
INLINE Vector gelu(Vector x) {
    const Vector size = choose(x < 0.0f, -x, x) * 0.70710678f;
    const Vector t = 1.0f / (1.0f + 0.3275911f * size);
    const Vector sum = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    const Vector beyond = sum * exponential(-size * size); /* 1 - erf(size) */
    return x * 0.5f * choose(x < 0.0f, beyond, 2.0f - beyond);
}

/* y = added + linear(norm(x)) */
void glassformer_linear(Threads threads, unsigned count, const Linear *linear, const Norm *norm, const float *x,
                        const float *added, float *y, long rows);

/* A token of each row joins the cache, and looks back. */
void glassformer_attend(Threads threads, unsigned count, Attention *job);
