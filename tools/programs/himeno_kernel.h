/* SPDX-License-Identifier: Apache-2.0 */
/* The stencil for one grid; included once per size with NI, NJ, NK and the name of the size.
 *
 * Poisson's equation in a curvilinear form, discretised with 19 points, solved by Jacobi's method: the
 * definition that the Himeno benchmark publishes. 34 floating point operations are counted per inner point. All
 * arrays are members of one structure of constant size: that the compiler knows their strides and that they do not
 * overlap is worth a factor of two.
 */
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define GRID struct PASTE(grid_, SIZE)

GRID {
    float p[NI + 1][NJ + 1][NK + 1], wrk1[NI + 1][NJ + 1][NK + 1], wrk2[NI + 1][NJ + 1][NK + 1];
    float bnd[NI + 1][NJ + 1][NK + 1];
    float a[4][NI + 1][NJ + 1][NK + 1], b[3][NI + 1][NJ + 1][NK + 1], c[3][NI + 1][NJ + 1][NK + 1];
};

static void PASTE(fill_, SIZE)(void *memory, int from, int to)
{
    GRID *restrict g = memory;
    for (int i = from; i < to; i++)
        for (int j = 0; j < NJ; j++)
            for (int k = 0; k < NK; k++) {
                g->a[0][i][j][k] = g->a[1][i][j][k] = g->a[2][i][j][k] = 1.0f;
                g->a[3][i][j][k] = 1.0f / 6.0f;
                g->b[0][i][j][k] = g->b[1][i][j][k] = g->b[2][i][j][k] = 0.0f;
                g->c[0][i][j][k] = g->c[1][i][j][k] = g->c[2][i][j][k] = 1.0f;
                g->p[i][j][k] = (float)(i * i) / (float)((NI - 1) * (NI - 1));
                g->wrk1[i][j][k] = g->wrk2[i][j][k] = 0.0f;
                g->bnd[i][j][k] = 1.0f;
            }
}

/* One sweep over the planes from..to-1 into wrk2; returns the sum of the squared corrections, in single precision and
 * the order of the points, or in double precision. Compiled once for each: both sums in one loop halve its speed. */
static inline __attribute__((always_inline)) double PASTE(sums_, SIZE)(void *memory, int from, int to, int in_double)
{
    GRID *restrict g = memory;
    float in_order = 0.0f;
    double exact = 0.0;
    for (int i = from; i < to; i++)
        for (int j = 1; j < NJ - 1; j++)
            for (int k = 1; k < NK - 1; k++) {
                float mixed_ij = g->p[i + 1][j + 1][k] - g->p[i + 1][j - 1][k] - g->p[i - 1][j + 1][k] + g->p[i - 1][j - 1][k];
                float mixed_jk = g->p[i][j + 1][k + 1] - g->p[i][j - 1][k + 1] - g->p[i][j + 1][k - 1] + g->p[i][j - 1][k - 1];
                float mixed_ki = g->p[i + 1][j][k + 1] - g->p[i - 1][j][k + 1] - g->p[i + 1][j][k - 1] + g->p[i - 1][j][k - 1];
                float sum = g->a[0][i][j][k] * g->p[i + 1][j][k] + g->a[1][i][j][k] * g->p[i][j + 1][k]
                    + g->a[2][i][j][k] * g->p[i][j][k + 1]
                    + g->b[0][i][j][k] * mixed_ij + g->b[1][i][j][k] * mixed_jk + g->b[2][i][j][k] * mixed_ki
                    + g->c[0][i][j][k] * g->p[i - 1][j][k] + g->c[1][i][j][k] * g->p[i][j - 1][k]
                    + g->c[2][i][j][k] * g->p[i][j][k - 1] + g->wrk1[i][j][k];
                float correction = (sum * g->a[3][i][j][k] - g->p[i][j][k]) * g->bnd[i][j][k];
                if (in_double)
                    exact += (double)correction * (double)correction;
                else
                    in_order += correction * correction;
                g->wrk2[i][j][k] = g->p[i][j][k] + 0.8f * correction;
            }
    return in_double ? exact : (double)in_order;
}

static double PASTE(sweep_, SIZE)(void *memory, int from, int to)
{
    return PASTE(sums_, SIZE)(memory, from, to, 0);
}

static double PASTE(exact_, SIZE)(void *memory, int from, int to)
{
    return PASTE(sums_, SIZE)(memory, from, to, 1);
}

static void PASTE(take_, SIZE)(void *memory, int from, int to)
{
    GRID *restrict g = memory;
    for (int i = from; i < to; i++)
        for (int j = 1; j < NJ - 1; j++)
            for (int k = 1; k < NK - 1; k++)
                g->p[i][j][k] = g->wrk2[i][j][k];
}

#undef GRID
#undef PASTE
#undef PASTE_
#undef SIZE
#undef NI
#undef NJ
#undef NK
