/* What the kernels for CPUs share. */
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
