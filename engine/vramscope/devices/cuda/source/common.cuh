// What every kernel shares: types of fixed width, narrow floats as bits, and their widening to float.
// No header is included, so that NVRTC needs no include path.
typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct boolean { u8 bits; };

__device__ __forceinline__ float wide(f16 v) { float r; asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(v.bits)); return r; }
__device__ __forceinline__ float wide(bf16 v) { return __uint_as_float((u32)v.bits << 16); }
__device__ __forceinline__ bool wide(boolean v) { return v.bits != 0; }
__device__ __forceinline__ float wide(float v) { return v; }
__device__ __forceinline__ double wide(double v) { return v; }
__device__ __forceinline__ i64 wide(i64 v) { return v; }
__device__ __forceinline__ i32 wide(i32 v) { return v; }
__device__ __forceinline__ i16 wide(i16 v) { return v; }
__device__ __forceinline__ i8 wide(i8 v) { return v; }
__device__ __forceinline__ u64 wide(u64 v) { return v; }
__device__ __forceinline__ u32 wide(u32 v) { return v; }
__device__ __forceinline__ u16 wide(u16 v) { return v; }
__device__ __forceinline__ u8 wide(u8 v) { return v; }

template <class T> struct To { template <class V> static __device__ __forceinline__ T from(V v) { return (T)v; } };
template <> struct To<f16> {
  template <class V> static __device__ __forceinline__ f16 from(V v) {
    f16 r; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"((float)v)); return r; }
};
template <> struct To<bf16> {
  template <class V> static __device__ __forceinline__ bf16 from(V v) {
    u32 b = __float_as_uint((float)v); bf16 r;
    if ((b & 0x7fffffffu) > 0x7f800000u) r.bits = (u16)((b >> 16) | 0x40u);
    else r.bits = (u16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
    return r; }
};
template <> struct To<boolean> {
  template <class V> static __device__ __forceinline__ boolean from(V v) { boolean r; r.bits = v != (V)0; return r; }
};

#define INFINITE __int_as_float(0x7f800000)
#define WHOLE_WARP 0xffffffffu

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(WHOLE_WARP, v, o);
  return v;
}

// The sum over a block; every thread gets it. `room` holds one float a warp.
__device__ __forceinline__ float block_sum(float v, float* room) {
  v = warp_sum(v);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) room[threadIdx.x >> 5] = v;
  __syncthreads();
  int warps = (blockDim.x + 31) >> 5;
  float t = threadIdx.x % 32 < warps ? room[threadIdx.x % 32] : 0.f;
  return warp_sum(t);
}

// One 16-byte (or shorter) load of N elements, widened.
template <class T, int N> struct alignas(sizeof(T) * N) Pack { T v[N]; };

template <int N, class T> __device__ __forceinline__ void load_wide(const T* p, float* out) {
  Pack<T, N> pack = *(const Pack<T, N>*)p;
#pragma unroll
  for (int i = 0; i < N; i++) out[i] = wide(pack.v[i]);
}

// Programmatic dependent launch: the next kernel may be set up while this one runs; WAIT returns once all that
// ran before has ended and its writes can be seen. BEGIN does both at a kernel's entry.
#if __CUDA_ARCH__ >= 900
#define RELEASE() asm volatile("griddepcontrol.launch_dependents;")
#define WAIT() asm volatile("griddepcontrol.wait;" ::: "memory")
#else
#define RELEASE()
#define WAIT()
#endif
#define BEGIN() do { RELEASE(); WAIT(); } while (0)

// Brings what will be read soon into the second-level cache.
__device__ __forceinline__ void warm(const void* p) { asm volatile("prefetch.global.L2 [%0];" :: "l"(p)); }

// Shared memory of another block of the cluster, 32 bits at a time.
__device__ __forceinline__ u32 remote_bits(const void* p, int rank) {
  u32 v = 0;
#if __CUDA_ARCH__ >= 900
  u32 at = (u32)__cvta_generic_to_shared(p), there;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(at), "r"(rank));
  asm volatile("ld.shared::cluster.u32 %0, [%1];" : "=r"(v) : "r"(there));
#endif
  return v;
}
__device__ __forceinline__ float remote(const float* p, int rank) { return __uint_as_float(remote_bits(p, rank)); }
#if __CUDA_ARCH__ >= 900
#define CLUSTER_SYNC() asm volatile("barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;" ::: "memory")
#else
#define CLUSTER_SYNC()
#endif
