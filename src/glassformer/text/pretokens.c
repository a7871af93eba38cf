/* GPT-2's pre-tokens of texts in UTF-8, and the ids of those that were seen before. pretokens.py builds and calls this.
 *
 * A text is cut into chunks, each of which begins with the one space that a word takes before it; nothing reaches across
 * there. In ASCII a chunk is cut into pre-tokens as GPT-2's pattern does; any other is looked up as a whole.
 */
#include <stdint.h>
#include <string.h>

#define LONGEST 128 /* bytes of what is looked up; what is longer is hardly ever seen twice */
#define PROBES 64   /* slots that are looked at: by chance never so many, but words may be chosen to share one */
#define FULL (-1)

typedef struct {
    int32_t *slots;    /* (mask + 1): an entry's number and one more, at its hash or at the next slot that was free */
    uint32_t *hashes;  /* (capacity) */
    int32_t *starts;   /* (capacity + 1): where an entry's bytes begin, and end where the next one's begin */
    uint8_t *bytes;    /* (room) */
    long mask, capacity, room;
    long entries;
} Cache;

enum { OTHER, LETTER, DIGIT, BLANK };
static const uint8_t KIND[128] = {
    ['a' ... 'z'] = LETTER, ['A' ... 'Z'] = LETTER, ['0' ... '9'] = DIGIT, ['\t' ... '\r'] = BLANK, [' '] = BLANK,
};

/* Whether a character begins here that Unicode calls white space. */
static int is_blank(const uint8_t *p) {
    switch (p[0]) {
    case 0xc2: return p[1] == 0x85 || p[1] == 0xa0;
    case 0xe1: return p[1] == 0x9a && p[2] == 0x80;
    case 0xe2:
        if (p[1] == 0x81) return p[2] == 0x9f;
        return p[1] == 0x80 && (p[2] <= 0x8a || p[2] == 0xa8 || p[2] == 0xa9 || p[2] == 0xaf);
    case 0xe3: return p[1] == 0x80 && p[2] == 0x80;
    default: return p[0] < 128 && KIND[p[0]] == BLANK;
    }
}

static const uint8_t *chunk_end(const uint8_t *p, const uint8_t *end, int *ascii) {
    uint8_t bits = *p;
    for (p++; p < end; p++) {
        if (*p == ' ' && p + 1 < end && !is_blank(p + 1)) break;
        bits |= *p;
    }
    *ascii = bits < 128;
    return p;
}

/* 's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+ within a chunk of ASCII. */
static const uint8_t *pretoken_end(const uint8_t *start, const uint8_t *end) {
    const uint8_t *p = start;
    if (*p == '\'' && end - p > 1) {
        const uint8_t one = p[1], two = end - p > 2 ? p[2] : 0;
        if (one == 's' || one == 't' || one == 'm' || one == 'd') return p + 2;
        if (((one == 'r' || one == 'v') && two == 'e') || (one == 'l' && two == 'l')) return p + 3;
    }
    if (*p == ' ' && end - p > 1 && KIND[p[1]] != BLANK) p++;
    const uint8_t kind = KIND[*p];
    do p++;
    while (p < end && KIND[*p] == kind);
    if (kind == BLANK && p < end && p - start > 1) p--; /* a run of blanks leaves its last to what follows */
    return p;
}

/* The number of an entry, which is new if these bytes are; FULL if it finds no place. */
static int32_t entry_of(Cache *cache, const uint8_t *key, long length) {
    uint32_t hash = 2166136261u;
    for (long i = 0; i < length; i++) hash = (hash ^ key[i]) * 16777619u;
    const uint32_t first = hash ^ hash >> 15;
    for (uint32_t slot = first; slot - first < PROBES; slot++) {
        int32_t *place = cache->slots + (slot & cache->mask);
        const int32_t entry = *place ? *place - 1 : (int32_t)cache->entries;
        int32_t *start = cache->starts + entry;
        if (!*place) {
            if (entry == cache->capacity || *start + length > cache->room) return FULL;
            memcpy(cache->bytes + *start, key, length);
            cache->hashes[entry] = hash;
            start[1] = *start + (int32_t)length;
            *place = (int32_t)++cache->entries;
            return entry;
        }
        if (cache->hashes[entry] == hash && start[1] - *start == length && !memcmp(cache->bytes + *start, key, length))
            return entry;
    }
    return FULL;
}

/* How many entries a text is made of; none if one would be too long, FULL if the cache is. */
static long cut(Cache *cache, const uint8_t *p, const uint8_t *end, int32_t *found) {
    long count = 0;
    while (p < end) {
        int ascii;
        const uint8_t *chunk = chunk_end(p, end, &ascii);
        while (p < chunk) {
            const uint8_t *stop = ascii ? pretoken_end(p, chunk) : chunk;
            if (stop - p > LONGEST) return 0;
            if ((found[count++] = entry_of(cache, p, stop - p)) == FULL) return FULL;
            p = stop;
        }
    }
    return count;
}

/* The entries of each text, one after another, and where each text's end; gives how many texts were done before the
 * cache was full. */
long glassformer_find(Cache *cache, const uint8_t *texts, const int64_t *ends, long count, int32_t *found,
                      int64_t *stops) {
    int64_t total = 0;
    for (long text = 0; text < count; text++) {
        const long more = cut(cache, texts + (text ? ends[text - 1] : 0), texts + ends[text], found + total);
        if (more == FULL) return text;
        stops[text] = total += more;
    }
    return count;
}

/* The ids of entries, each of which has `sizes` from `firsts` on. */
void glassformer_gather(const int32_t *found, long count, const int32_t *known, const int64_t *firsts,
                        const int32_t *sizes, int64_t *ids) {
    for (long n = 0; n < count; n++)
        for (int32_t k = 0; k < sizes[found[n]]; k++) *ids++ = known[firsts[found[n]] + k];
}

void glassformer_check_pretokens(void) {
    int32_t slots[16] = {0}, starts[9] = {0}, found[16];
    uint32_t hashes[8];
    uint8_t bytes[64];
    int64_t stops[2];
    const int64_t ends[2] = {8, 18};
    Cache cache = {slots, hashes, starts, bytes, 15, 8, sizeof bytes, 0};
    glassformer_find(&cache, (const uint8_t *)"It's  a\ncaf\xc3\xa9 it's", ends, 2, found, stops);
    const int32_t known[1] = {7}, sizes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
    const int64_t firsts[8] = {0};
    int64_t ids[16];
    glassformer_gather(found, stops[1], known, firsts, sizes, ids);
}
