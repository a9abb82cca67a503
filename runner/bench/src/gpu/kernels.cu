// Kernels of the GPU benchmarks, compiled when they are needed: by NVRTC for NVIDIA, by hipRTC for
// AMD. Every argument has eight bytes. Blocks have BLOCK threads, and what is copied, added or read
// comes in whole blocks, so that nothing asks for the end of a buffer.

typedef unsigned int u32;
typedef unsigned long long u64;

#define BLOCK 256

__device__ u32 noise(u64 seed, u64 index) {
    u64 z = index + seed * 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return (u32)((z ^ z >> 31) >> 32);
}

// A number between -1 and 1 in a format of so many exponent and mantissa bits, cut off towards zero.
__device__ u32 encode(float x, int exponent_bits, int mantissa_bits, int bias) {
    u32 bits = __float_as_uint(x);
    int exponent = (int)(bits >> 23 & 0xff) - 127 + bias;
    if (exponent <= 0) return 0;
    u32 mantissa = (bits & 0x7fffff) >> (23 - mantissa_bits);
    return bits >> 31 << (exponent_bits + mantissa_bits) | (u32)exponent << mantissa_bits | mantissa;
}

extern "C" __global__ void __launch_bounds__(BLOCK)
fill(void* out, u64 count, u64 seed, u64 exponent_bits, u64 mantissa_bits, u64 bias) {
    u64 i = (u64)blockIdx.x * BLOCK + threadIdx.x;
    if (i >= count) return;
    float x = (float)((int)noise(seed, i) >> 8) * 0x1p-23f;
    u32 bits = encode(x, (int)exponent_bits, (int)mantissa_bits, (int)bias);
    switch (1 + exponent_bits + mantissa_bits) {
        case 8: ((unsigned char*)out)[i] = (unsigned char)bits; break;
        case 16: ((unsigned short*)out)[i] = (unsigned short)bits; break;
        default: ((u32*)out)[i] = bits;
    }
}

// One access of sixteen bytes to a thread, 4 KiB to a block: more to a thread was slower on an H200.
extern "C" __global__ void __launch_bounds__(BLOCK) copy(uint4* out, const uint4* in) {
    u64 at = (u64)blockIdx.x * BLOCK + threadIdx.x;
    out[at] = in[at];
}

extern "C" __global__ void __launch_bounds__(BLOCK)
triad(float4* a, const float4* b, const float4* c) {
    const float s = 0.75f;
    u64 at = (u64)blockIdx.x * BLOCK + threadIdx.x;
    float4 x = b[at], y = c[at];
    a[at] = make_float4(fmaf(s, y.x, x.x), fmaf(s, y.y, x.y), fmaf(s, y.z, x.z), fmaf(s, y.w, x.w));
}

// Reads 64 KiB to a block, four accesses of a thread at a time, and leaves the exclusive or of all
// words: any order of adding up gives the same.
extern "C" __global__ void __launch_bounds__(BLOCK) gather(u32* out, const uint4* in) {
    u64 at = (u64)blockIdx.x * (BLOCK * 16) + threadIdx.x;
    u32 all = 0;
    for (int round = 0; round < 4; ++round) {
        uint4 held[4];
#pragma unroll
        for (int i = 0; i < 4; ++i) held[i] = in[at + (round * 4 + i) * BLOCK];
#pragma unroll
        for (int i = 0; i < 4; ++i) all ^= held[i].x ^ held[i].y ^ held[i].z ^ held[i].w;
    }
    __shared__ u32 block;
    if (threadIdx.x == 0) block = 0;
    __syncthreads();
    atomicXor(&block, all);
    __syncthreads();
    if (threadIdx.x == 0) atomicXor(out, block);
}

// How many words differ, and the first of them.
extern "C" __global__ void __launch_bounds__(BLOCK)
differ(u64* found, const u32* a, const u32* b, u64 count) {
    u64 step = (u64)gridDim.x * BLOCK;
    for (u64 i = (u64)blockIdx.x * BLOCK + threadIdx.x; i < count; i += step) {
        if (a[i] != b[i]) {
            atomicAdd(&found[0], 1ull);
            atomicMin(&found[1], i);
        }
    }
}
