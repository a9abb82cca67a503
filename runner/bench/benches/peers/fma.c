/* x <- x*x + c in f32 on as many vectors as two units need, by the compiler's own means: prints
   GFLOP/s, one line for each 40 ms. Arguments: how many such lines. BYTES is a vector's width. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

typedef float vector __attribute__((vector_size(BYTES)));

enum { SUMS = 12, ITERATIONS = 40000 };

static volatile float sink;

static void stretch(vector *state, vector c)
{
    vector x[SUMS];
    for (int i = 0; i < SUMS; i++)
        x[i] = state[i];
    for (int turn = 0; turn < ITERATIONS; turn++)
#pragma GCC unroll 12
        for (int i = 0; i < SUMS; i++)
            x[i] = x[i] * x[i] + c;
    for (int i = 0; i < SUMS; i++)
        state[i] = x[i];
}

static double rate(double seconds)
{
    double all = 0;
#pragma omp parallel reduction(+ : all)
    {
        vector state[SUMS], c = (vector){} - 1.9f;
        for (int i = 0; i < SUMS; i++)
            state[i] = (vector){} + (float)i / SUMS;
#pragma omp barrier
        double begun = omp_get_wtime(), now;
        long stretches = 0;
        do {
            stretch(state, c);
            stretches++;
            now = omp_get_wtime();
        } while (now - begun < seconds);
        for (int i = 0; i < SUMS; i++)
            sink = state[i][0];
        all += 2.0 * (BYTES / 4) * SUMS * ITERATIONS * stretches / (now - begun) / 1e9;
    }
    return all;
}

int main(int argc, char **argv)
{
    int lines = argc > 1 ? atoi(argv[1]) : 10;
    rate(0.3);
    for (int i = 0; i < lines; i++)
        printf("%.3f\n", rate(0.04));
    return 0;
}
