/* The limit on this machine: variance of q . k of standard normals, one thread, no library calls.

   Threefry-2x32-20 (Salmon et al. 2011) or xoshiro128++ (Blackman and Vigna 2021), Box-Muller with
   polynomials, sums of x and x^2 on the way. The inner loops run over independent lanes, so that
   the compiler turns them into vector instructions. d_k is even, pairs a multiple of LANES. */

#include <math.h>
#include <stdint.h>
#include <string.h>

enum { LANES = 256 };

static inline uint32_t rotated(uint32_t x, int by) { return x << by | x >> (32 - by); }

static inline void threefry(uint32_t k0, uint32_t k1, uint32_t c0, uint32_t c1, uint32_t *out0,
                            uint32_t *out1)
{
    const uint32_t k2 = k0 ^ k1 ^ 0x1BD11BDAu;
    uint32_t x = c0 + k0, y = c1 + k1;
#define ROUND(r) x += y, y = rotated(y, r) ^ x
#define FOUR_EVEN ROUND(13), ROUND(15), ROUND(26), ROUND(6)
#define FOUR_ODD ROUND(17), ROUND(29), ROUND(16), ROUND(24)
    FOUR_EVEN, x += k1, y += k2 + 1;
    FOUR_ODD, x += k2, y += k0 + 2;
    FOUR_EVEN, x += k0, y += k1 + 3;
    FOUR_ODD, x += k1, y += k2 + 4;
    FOUR_EVEN, x += k2, y += k0 + 5;
    *out0 = x, *out1 = y;
}

static inline float as_float(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline uint32_t as_bits(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

/* -log u by exponent and a polynomial on [sqrt(1/2), sqrt(2)], as in simulations/random.py */
static inline float negative_log(float u)
{
    const int32_t bits = (int32_t)as_bits(u);
    const int32_t exponent = (bits - 0x3F3504F3) >> 23;
    const float f = as_float((uint32_t)bits - ((uint32_t)exponent << 23)) - 1.0f;
    float p = -0.087222434f;
    p = p * f + 0.14366788f;
    p = p * f - 0.14952283f;
    p = p * f + 0.16562402f;
    p = p * f - 0.19956833f;
    p = p * f + 0.25002074f;
    p = p * f - 0.33334186f;
    p = p * f + 0.49999988f;
    p = p * f - 0.99999997f;
    return p * f - 0.69314718f * (float)exponent;
}

/* Radius from 31 bits, its spare bit as the sign, angle over half a turn. */
static inline void box_muller(uint32_t radius, uint32_t angle, float *first, float *second)
{
    float u = fabsf((float)(int32_t)(radius | 1u)) * 0x1p-31f;
    u = u < 1.0f - 0x1p-24f ? u : 1.0f - 0x1p-24f;
    float r = sqrtf(2.0f * negative_log(u));
    r = as_float(as_bits(r) ^ (radius & 0x80000000u));
    const float s = (float)(int32_t)(angle | 1u) * 0x1p-31f, t = s * s;
    float sine = 1.5148513e-4f, cosine = -2.3824918e-5f;
    sine = sine * t - 4.6737666e-3f;
    sine = sine * t + 7.9689680e-2f;
    sine = sine * t - 0.64596371f;
    sine = sine * t + 1.5707963f;
    cosine = cosine * t + 9.1772484e-4f;
    cosine = cosine * t - 2.0862688e-2f;
    cosine = cosine * t + 0.25366932f;
    cosine = cosine * t - 1.2337005f;
    cosine = cosine * t + 1.0f;
    *first = r * cosine, *second = r * (s * sine);
}

static inline float product(uint32_t a, uint32_t b, uint32_t c, uint32_t d)
{
    float q0, q1, k0, k1;
    box_muller(a, b, &q0, &q1);
    box_muller(c, d, &k0, &k1);
    return q0 * k0 + q1 * k1;
}

typedef struct { double sum, squares; } Totals;

static void add(Totals *totals, const float *x)
{
    for (int j = 0; j < LANES; j++) {
        totals->sum += x[j];
        totals->squares += (double)x[j] * x[j];
    }
}

static double variance(Totals totals, int64_t n)
{
    const double mean = totals.sum / (double)n;
    return totals.squares / (double)n - mean * mean;
}

void threefry_words(const uint32_t key[2], const uint32_t counter[2], uint32_t out[2])
{
    threefry(key[0], key[1], counter[0], counter[1], out, out + 1);
}

double variance_threefry(int64_t pairs, int d_k, uint32_t seed)
{
    Totals totals = {0, 0};
    for (int64_t start = 0; start < pairs; start += LANES) {
        float x[LANES] = {0};
        for (uint32_t i = 0; i < (uint32_t)d_k / 2; i++)
            for (int j = 0; j < LANES; j++) {
                const uint32_t lane = (uint32_t)start + (uint32_t)j;
                uint32_t a, b, c, d;
                threefry(seed, (uint32_t)(start >> 32), lane, i, &a, &b);
                threefry(seed, (uint32_t)(start >> 32), lane, i | 1u << 31, &c, &d);
                x[j] += product(a, b, c, d);
            }
        add(&totals, x);
    }
    return variance(totals, pairs);
}

#define NEXT(out)                                                                                  \
    do {                                                                                           \
        const uint32_t shifted = s1 << 9;                                                          \
        out = rotated(s0 + s3, 7) + s0;                                                            \
        s2 ^= s0, s3 ^= s1, s1 ^= s2, s0 ^= s3, s2 ^= shifted;                                     \
        s3 = rotated(s3, 11);                                                                      \
    } while (0)

double variance_xoshiro(int64_t pairs, int d_k, uint32_t seed)
{
    static uint32_t state[4][LANES];
    for (uint32_t j = 0; j < LANES; j++)
        for (uint32_t i = 0; i < 2; i++)
            threefry(seed, 0, j, i, &state[2 * i][j], &state[2 * i + 1][j]);
    Totals totals = {0, 0};
    for (int64_t start = 0; start < pairs; start += LANES) {
        float x[LANES] = {0};
        for (int i = 0; i < d_k / 2; i++)
            for (int j = 0; j < LANES; j++) {
                uint32_t s0 = state[0][j], s1 = state[1][j], s2 = state[2][j], s3 = state[3][j];
                uint32_t a, b, c, d;
                NEXT(a);
                NEXT(b);
                NEXT(c);
                NEXT(d);
                state[0][j] = s0, state[1][j] = s1, state[2][j] = s2, state[3][j] = s3;
                x[j] += product(a, b, c, d);
            }
        add(&totals, x);
    }
    return variance(totals, pairs);
}
