// act(gate) · up, element by element in 16-byte pieces. T: element type; ACTIVATION 1: SiLU, 2: GELU by erf, 3: by tanh.
#define VEC (16 / (int)sizeof(T))

__device__ __forceinline__ float activated(float x) {
#if ACTIVATION == 1
  return sizeof(T) == 2 ? __fdividef(x, 1.f + __expf(-x)) : x / (1.f + expf(-x));
#elif ACTIVATION == 2
  return 0.5f * x * (1.f + erff(x * 0.70710678f));
#else
  return 0.5f * x * (1.f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
#endif
}

// `y` may be `gate` or `up`: a thread reads its elements before it writes them.
extern "C" __global__ __launch_bounds__(256) void gate(i64 count, const T* gate, const T* up, T* y) { BEGIN();
  i64 at = (blockIdx.x * 256LL + threadIdx.x) * VEC;
  if (at + VEC <= count) {
    Pack<T, VEC> g = *(const Pack<T, VEC>*)(gate + at), u = *(const Pack<T, VEC>*)(up + at), out;
#pragma unroll
    for (int i = 0; i < VEC; i++) out.v[i] = To<T>::from(activated(wide(g.v[i])) * wide(u.v[i]));
    *(Pack<T, VEC>*)(y + at) = out;
  } else {
    for (; at < count; at++) y[at] = To<T>::from(activated(wide(gate[at])) * wide(up[at]));
  }
}
