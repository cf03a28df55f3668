// What the fused products share: a few activation rows times a constant weight, with an RMS norm before, and
// bias, residual and a gated activation behind. T: element type; ROWS: activation rows; NORM, SKIP: x is normed,
// after adding skip; PAIR: two weights whose results are joined as act(first) · second (1 silu, 2 gelu, 3 gelu by
// tanh). Weights are constants: their first loads are issued before the kernel waits for its predecessor.
#define MATS (PAIR ? 2 : 1)
#define VEC (16 / (int)sizeof(T))
#define WARPS 8

struct Fused {
  const T* x; const T* skip; const T* gamma; const T* residual; T* y;
  const void* w[2]; const T* scales[2]; const void* zeros[2]; const T* bias[2];
  i64 n, k, x_row, skip_row, residual_row, y_row;
  i64 blocks, block, row_bytes, zero_bytes;
  double epsilon;
};

__device__ __forceinline__ float activated(float v) {
#if PAIR == 1
  return v / (1.f + expf(-v));
#elif PAIR == 2
  return 0.5f * v * (1.f + erff(v * 0.70710678f));
#elif PAIR == 3
  return 0.5f * v * (1.f + tanhf(0.79788456f * (v + 0.044715f * v * v * v)));
#else
  return v;
#endif
}

// What is added to one result, read long before it is needed.
struct Tail { float bias[2], residual; };

__device__ __forceinline__ Tail tail_of(const Fused& f, int r, i64 column) {
  Tail t = {};
  if (column >= f.n) return t;
#pragma unroll
  for (int m = 0; m < MATS; m++) if (f.bias[m]) t.bias[m] = wide(f.bias[m][column]);
  if (f.residual) t.residual = wide(f.residual[r * f.residual_row + column]);
  return t;
}

__device__ __forceinline__ void finish(const Fused& f, const Tail& t, int r, i64 column, float first, float second) {
  first += t.bias[0];
#if PAIR
  first = activated(first) * (second + t.bias[1]);
#endif
  f.y[r * f.y_row + column] = To<T>::from(first + t.residual);
}

// One element of the activation: x + skip, and with a norm its square and its factor.
__device__ __forceinline__ float element(const Fused& f, int r, i64 k, float* squares) {
  float v = wide(f.x[r * f.x_row + k]);
#if SKIP
  v += wide(f.skip[r * f.skip_row + k]);
#endif
#if NORM
  *squares += v * v;
  v *= wide(f.gamma[k]);
#endif
  return v;
}

__device__ __forceinline__ float inverse_of(const Fused& f, float squares) {
#if NORM
  return 1.f / sqrtf(squares / (float)f.k + (float)f.epsilon);
#else
  return 1.f;
#endif
}

// A thread warms the norm's factors of the elements from `first` to `last`, and a block the biases of its columns.
__device__ __forceinline__ void warm_norm(const Fused& f, i64 first, i64 last) {
#if NORM
  i64 at = first + threadIdx.x * (i64)(128 / sizeof(T));
  if (at < last) warm(f.gamma + at);
#endif
}
__device__ __forceinline__ void warm_bias(const Fused& f, i64 column) {
  if (threadIdx.x < MATS && f.bias[threadIdx.x] && column < f.n) warm(f.bias[threadIdx.x] + column);
}

// 16 bytes into shared memory while the thread goes on, `bytes` of them real and the rest 0; COMMIT ends a group, ARRIVED(n) waits for all but the newest n.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ void copy16(void* to, const void* from, int bytes) {
  u32 at = (u32)__cvta_generic_to_shared(to);
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(at), "l"(from), "r"(bytes) : "memory");
}
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define ARRIVED(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#else
__device__ __forceinline__ void copy16(void* to, const void* from, int bytes) {
  for (int i = 0; i < 16; i++) ((u8*)to)[i] = i < bytes ? ((const u8*)from)[i] : 0;
}
#define COMMIT()
#define ARRIVED(n)
#endif
