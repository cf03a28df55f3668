// Attention over selected positions (IndexShare): a block a query row; an index that is no position selects nothing.
// T: element type; I: of the indices.
struct Selected {
  const T* query; const T* keys; const T* values; const T* new_keys; const T* new_values; const T* bias; const I* index; const i32* valid; T* out;
  i64 heads, group, queries, width, chosen, index_heads, held, rows;
  i64 query_step[3], key_step[3], value_step[3], new_key_step[3], new_value_step[3], bias_step[4], out_step[3];
  double scale;
};

__device__ __forceinline__ const T* row_of(const T* held, const i64* step, const T* fresh, const i64* fresh_step, i64 b, i64 kv, i64 row, i64 first) {
  return row < first ? held + b * step[0] + kv * step[1] + row * step[2] : fresh + b * fresh_step[0] + kv * fresh_step[1] + (row - first) * fresh_step[2];
}

extern "C" __global__ __launch_bounds__(128) void selected(Selected s) { BEGIN();
  extern __shared__ float room[];
  __shared__ float sums[32];
  float* query = room; float* score = room + s.width;
  i64 q = blockIdx.x, h = blockIdx.y, b = blockIdx.z, kv = h / s.group, lane = threadIdx.x % 32;
  i64 length = s.valid ? (i64)s.valid[b] : s.rows;
  const T* from = s.query + b * s.query_step[0] + h * s.query_step[1] + q * s.query_step[2];
  const I* index = s.index + ((b * s.index_heads + (s.index_heads > 1 ? h : 0)) * s.queries + q) * s.chosen;
  for (i64 d = threadIdx.x; d < s.width; d += 128) query[d] = wide(from[d]) * (float)s.scale;
  __syncthreads();
  float most = -INFINITE;
  for (i64 j = threadIdx.x / 32; j < s.chosen; j += 4) {
    i64 row = (i64)index[j];
    float v = 0.f;
    bool real = row >= 0 && row < length;
    if (real) {
      const T* key = row_of(s.keys, s.key_step, s.new_keys, s.new_key_step, b, kv, row, s.held);
      for (i64 d = lane; d < s.width; d += 32) v += query[d] * wide(key[d]);
    }
    v = warp_sum(v);
    if (real && s.bias) v += wide(s.bias[b * s.bias_step[0] + h * s.bias_step[1] + q * s.bias_step[2] + row * s.bias_step[3]]);
    v = real ? v : -INFINITE;
    if (lane == 0) score[j] = v;
    most = fmaxf(most, v);
  }
  if (lane == 0) sums[threadIdx.x / 32] = most;
  __syncthreads();
  most = fmaxf(fmaxf(sums[0], sums[1]), fmaxf(sums[2], sums[3]));
  __syncthreads();
  float total = 0.f;
  for (i64 j = threadIdx.x; j < s.chosen; j += 128) {
    float p = most == -INFINITE ? 0.f : expf(score[j] - most);
    score[j] = p; total += p;
  }
  total = block_sum(total, sums);
  __syncthreads();
  float inverse = total == 0.f ? 0.f : 1.f / total;
  T* out = s.out + b * s.out_step[0] + h * s.out_step[1] + q * s.out_step[2];
  for (i64 d = threadIdx.x; d < s.width; d += 128) {
    float v = 0.f;
    for (i64 j = 0; j < s.chosen; j++) {
      i64 row = (i64)index[j];
      if (row < 0 || row >= length) continue;
      v += score[j] * wide(row_of(s.values, s.value_step, s.new_values, s.new_value_step, b, kv, row, s.held)[d]);
    }
    out[d] = To<T>::from(v * inverse);
  }
}

// Valid rows of each entry: 1 + the last column that any bias row leaves finite.
struct Open { i64 heads, queries, rows, step[4]; };
extern "C" __global__ __launch_bounds__(256) void open_rows(Open o, const T* bias, i32* valid) { BEGIN();
  __shared__ i32 most;
  if (threadIdx.x == 0) most = 0;
  __syncthreads();
  i32 own = 0;
  for (i64 n = threadIdx.x; n < o.heads * o.queries * o.rows; n += 256) {
    i64 row = n % o.rows, query = n / o.rows % o.queries, head = n / o.rows / o.queries;
    float v = wide(bias[blockIdx.x * o.step[0] + head * o.step[1] + query * o.step[2] + row * o.step[3]]);
    if (fabsf(v) < INFINITE && row + 1 > own) own = (i32)row + 1;
  }
  atomicMax(&most, own);
  __syncthreads();
  if (threadIdx.x == 0) valid[blockIdx.x] = most;
}

// The new rows go right before the end of the valid ones.
struct Placing { i64 batch, heads, fresh, width, rows, new_step[3]; };
extern "C" __global__ void place_rows(Placing p, const T* fresh, const i32* valid, T* cache) { BEGIN();
  i64 total = p.batch * p.heads * p.fresh * p.width;
  for (i64 n = blockIdx.x * (i64)blockDim.x + threadIdx.x; n < total; n += gridDim.x * (i64)blockDim.x) {
    i64 d = n % p.width, row = n / p.width % p.fresh, head = n / p.width / p.fresh % p.heads, b = n / p.width / p.fresh / p.heads;
    i64 to = (i64)valid[b] - p.fresh + row;
    if (to >= 0 && to < p.rows) cache[((b * p.heads + head) * p.rows + to) * p.width + d] = fresh[b * p.new_step[0] + head * p.new_step[1] + row * p.new_step[2] + d];
  }
}
