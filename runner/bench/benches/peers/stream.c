/* STREAM's triad a = b + 3c in f64: prints GB/s, one line for each pass. Arguments: elements of an
   array, passes, and 1 for huge pages. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

static double *array(size_t elements, int huge)
{
    size_t bytes = elements * sizeof(double);
    double *at = aligned_alloc(2 << 20, (bytes + (2 << 20) - 1) / (2 << 20) * (2 << 20));
    if (!at)
        exit(1);
    if (huge)
        madvise(at, bytes, MADV_HUGEPAGE);
    return at;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    size_t elements = strtoull(argv[1], 0, 10);
    int passes = atoi(argv[2]), huge = atoi(argv[3]);
    double *restrict a = array(elements, huge);
    double *restrict b = array(elements, huge);
    double *restrict c = array(elements, huge);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < elements; i++) {
        a[i] = 1.0;
        b[i] = 2.0;
        c[i] = 0.5;
    }
    for (int pass = 0; pass < passes + 2; pass++) {
        double begun = omp_get_wtime();
#pragma omp parallel for schedule(static)
        for (size_t i = 0; i < elements; i++)
            a[i] = b[i] + 3.0 * c[i];
        double took = omp_get_wtime() - begun;
        if (pass >= 2)
            printf("%.3f\n", 24.0 * elements / took / 1e9);
    }
    return a[elements / 2] == 3.5 ? 0 : 1;
}
