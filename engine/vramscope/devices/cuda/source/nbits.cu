// Products with weights of 2, 4 or 8 bits. T: activation, scale and output; BITS; ZERO 0: the middle code,
// 1: packed zero points, 2: zero points of T; ROWS: activation rows; WORDS: 4-byte words of one load.
#define CODES (32 / BITS)
#define CODE_MASK ((1u << BITS) - 1u)

struct NBits { i64 n, k, blocks, block, row_bytes, zero_bytes, x_row, y_row; };

__device__ __forceinline__ float zero_point(const NBits& g, const void* zeros, i64 column, i64 block) {
#if ZERO == 1
  u32 byte = ((const u8*)zeros)[column * g.zero_bytes + block * BITS / 8];
  return (float)((byte >> (block * BITS % 8)) & CODE_MASK);
#elif ZERO == 2
  return wide(((const T*)zeros)[column * g.blocks + block]);
#else
  return (float)(1 << (BITS - 1));
#endif
}

// y = x · decode(W)ᵀ + bias; a warp makes one column.
extern "C" __global__ __launch_bounds__(256) void gemv_nbits(NBits g, const T* x, const u8* w, const T* scales,
                                                            const void* zeros, const T* bias, T* y) { BEGIN();
  i64 column = blockIdx.x * 8LL + threadIdx.x / 32;
  if (column >= g.n) return;
  const u8* row = w + column * g.row_bytes;
  float acc[ROWS] = {};
  i64 chunks = g.row_bytes / (4 * WORDS);
#pragma unroll 2
  for (i64 chunk = threadIdx.x % 32; chunk < chunks; chunk += 32) {
    Pack<u32, WORDS> codes = *(const Pack<u32, WORDS>*)(row + chunk * 4 * WORDS);
#pragma unroll
    for (int word = 0; word < WORDS; word++) {
      i64 k0 = (chunk * WORDS + word) * CODES, block = k0 / g.block;
      float scale = wide(scales[column * g.blocks + block]), zero = zero_point(g, zeros, column, block);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        const T* from = x + r * g.x_row + k0;
        float dot = 0.f, sum = 0.f;
#pragma unroll
        for (int i = 0; i < CODES; i++) {
          float v = k0 + i < g.k ? wide(from[i]) : 0.f;
          dot += v * (float)((codes.v[word] >> (i * BITS)) & CODE_MASK);
          sum += v;
        }
        acc[r] += scale * (dot - zero * sum);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++) {
    float total = warp_sum(acc[r]);
    if (threadIdx.x % 32 == 0) {
      if (bias) total += wide(bias[column]);
      y[r * g.y_row + column] = To<T>::from(total);
    }
  }
}

// Columns [first, first + count) of the weight as dense rows [count, k]; with `groups` scales follow g_idx.
extern "C" __global__ void dense_nbits(NBits g, i64 first, i64 count, const u8* w, const T* scales, const void* zeros,
                                       const i32* groups, T* out) { BEGIN();
  for (i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x; i < count * g.k; i += gridDim.x * (i64)blockDim.x) {
    i64 column = first + i / g.k, k = i % g.k, bit = k * BITS;
    i64 block = groups ? groups[k] : k / g.block;
    u32 code = (w[column * g.row_bytes + bit / 8] >> (bit % 8)) & CODE_MASK;
    float v = ((float)code - zero_point(g, zeros, column, block)) * wide(scales[column * g.blocks + block]);
    out[i] = To<T>::from(v);
  }
}

// The same without `groups` where every word of codes has one scale: a thread makes four words of one stride apart.
extern "C" __global__ __launch_bounds__(256) void dense_words(NBits g, i64 first, i64 count, const u8* w, const T* scales,
                                                             const void* zeros, const i32*, T* out) { BEGIN();
  u32 words = (u32)g.k / CODES, total = (u32)count * words, at = blockIdx.x * 1024u + threadIdx.x;
#pragma unroll
  for (int turn = 0; turn < 4; turn++, at += 256) {
    if (at >= total) return;
    u32 row = at / words, word = at - row * words, block = word * CODES / (u32)g.block;
    i64 column = first + row;
    u32 codes = *(const u32*)(w + column * g.row_bytes + word * 4);
    float scale = wide(scales[column * g.blocks + block]), zero = zero_point(g, zeros, column, block);
    Pack<T, CODES> dense;
#pragma unroll
    for (int i = 0; i < CODES; i++) dense.v[i] = To<T>::from(((float)((codes >> (i * BITS)) & CODE_MASK) - zero) * scale);
    *(Pack<T, CODES>*)(out + (i64)at * CODES) = dense;
  }
}
