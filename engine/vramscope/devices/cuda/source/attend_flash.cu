// The matrix units' form for many queries: HEAD a multiple of 64, no mask. grid (tiles of 64 queries, heads, batch),
// 128 threads; a warp holds 16 query rows. Rows lie in shared memory with their 16-byte pieces exchanged.
#define KEYS 64
__device__ __forceinline__ u32 place(int row, int chunk) { return (u32)(row * HEAD * 2 + ((chunk & ~7) | ((chunk ^ row) & 7)) * 16); }
__device__ __forceinline__ void copy16(u32 to, const void* from, bool there) {
  int size = there ? 16 : 0;
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(size));
}
__device__ __forceinline__ void load4(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
__device__ __forceinline__ void load4_turned(u32* r, u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
#if HALF
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32"
#else
#define PRODUCT "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32"
#endif
__device__ __forceinline__ void multiply(float* acc, const u32* x, u32 b0, u32 b1) {
  asm volatile(PRODUCT " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(acc[0]), "+f"(acc[1]), "+f"(acc[2]), "+f"(acc[3]) : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ u32 pair_of(float a, float b) { return (u32)To<T>::from(a).bits | (u32)To<T>::from(b).bits << 16; }

__device__ __forceinline__ void bring(const Attend& a, u32 keys, u32 values, i64 b, i64 kv, i64 j0, i64 stop) {
  for (int i = threadIdx.x; i < KEYS * HEAD / 8; i += 128) {
    int row = i / (HEAD / 8), chunk = i % (HEAD / 8);
    bool there = j0 + row < stop;
    i64 j = there ? j0 + row : 0;
    copy16(keys + place(row, chunk), a.k + b * a.k_b + kv * a.k_h + j * a.k_s + chunk * 8, there);
    copy16(values + place(row, chunk), a.v + b * a.v_b + kv * a.v_h + j * a.v_s + chunk * 8, there);
  }
  asm volatile("cp.async.commit_group;");
}

extern "C" __global__ __launch_bounds__(128) void attend_flash(Attend a) {
  BEGIN();
  extern __shared__ __align__(128) u8 memory[];
  __shared__ float fresh[4][HEAD];
  constexpr u32 BYTES = 64 * HEAD * 2;
  u32 base = (u32)__cvta_generic_to_shared(memory);
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  i64 h = blockIdx.y, b = blockIdx.z, kv = h / a.group, s0 = (gridDim.x - 1 - blockIdx.x) * 64LL;
  Extent e = extent_of(a.lengths, b);
  i64 last = s0 + 64 < e.count ? s0 + 64 : e.count, first, stop, unused;
  visible(a, e, e.offset + s0, &first, &unused);
  visible(a, e, e.offset + last - 1, &unused, &stop);
  if (s0 >= e.count) stop = first;
  if (first < stop) bring(a, base + BYTES, base + 3 * BYTES, b, kv, first, stop);
  for (int r = 0; r < 16; r++) {
    i64 s = s0 + warp * 16 + r;
    T* row = (T*)memory;
    if (s < e.count) {
      i64 position = a.rotary.positions ? a.rotary.positions[b * a.lengths.positions + s] : e.offset + s;
      prepare(fresh[warp], a.q + b * a.q_b + s * a.q_s + h * a.q_h, position, a.rotary, a.norm, (float)a.epsilon, (float)a.scale);
    }
    for (int i = lane; i < HEAD; i += 32)
      row[place(warp * 16 + r, i / 8) / 2 + i % 8] = To<T>::from(s < e.count ? fresh[warp][i] : 0.f);
    __syncwarp();
  }
  u32 q[HEAD / 16][4];
#pragma unroll
  for (int k = 0; k < HEAD / 16; k++) load4(q[k], base + place(warp * 16 + lane % 16, 2 * k + lane / 16));
  i64 low[2], high[2];
#pragma unroll
  for (int r = 0; r < 2; r++) {
    i64 s = s0 + warp * 16 + lane / 4 + 8 * r;
    visible(a, e, e.offset + s, &low[r], &high[r]);
    if (s >= e.count) high[r] = low[r];
  }
  float out[HEAD / 8][4] = {}, m[2] = {-INFINITE, -INFINITE}, l[2] = {};
  int turn = 0;
  for (i64 j0 = first; j0 < stop; j0 += KEYS, turn ^= 1) {
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();
    if (j0 + KEYS < stop) bring(a, base + (1 + (turn ^ 1)) * BYTES, base + (3 + (turn ^ 1)) * BYTES, b, kv, j0 + KEYS, stop);
    u32 keys = base + (1 + turn) * BYTES, values = base + (3 + turn) * BYTES;
    float score[8][4] = {};
#pragma unroll
    for (int k = 0; k < HEAD / 16; k++)
#pragma unroll
      for (int n = 0; n < 4; n++) {
        u32 r[4];
        load4(r, keys + place(n * 16 + lane / 16 * 8 + lane % 8, 2 * k + lane / 8 % 2));
        multiply(score[2 * n], q[k], r[0], r[1]);
        multiply(score[2 * n + 1], q[k], r[2], r[3]);
      }
    float top[2] = {m[0], m[1]};
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        i64 j = j0 + n * 8 + lane % 4 * 2 + c % 2;
        float v = score[n][c];
        if (a.softcap > 0) v = (float)a.softcap * tanhf(v / (float)a.softcap);
        if (j < low[c / 2] || j >= high[c / 2]) v = -INFINITE;
        score[n][c] = v; top[c / 2] = fmaxf(top[c / 2], v);
      }
#pragma unroll
    for (int r = 0; r < 2; r++) {
      top[r] = fmaxf(top[r], __shfl_xor_sync(WHOLE_WARP, top[r], 1));
      top[r] = fmaxf(top[r], __shfl_xor_sync(WHOLE_WARP, top[r], 2));
      float keep = rescale(m[r], top[r]);
      m[r] = top[r]; l[r] *= keep;
#pragma unroll
      for (int d = 0; d < HEAD / 8; d++) { out[d][2 * r] *= keep; out[d][2 * r + 1] *= keep; }
    }
#pragma unroll
    for (int n = 0; n < 8; n++)
#pragma unroll
      for (int c = 0; c < 4; c++) {
        float weight = score[n][c] == -INFINITE ? 0.f : __expf(score[n][c] - m[c / 2]);
        score[n][c] = weight; l[c / 2] += weight;
      }
#pragma unroll
    for (int i = 0; i < 4; i++) {
      u32 p[4] = {pair_of(score[2 * i][0], score[2 * i][1]), pair_of(score[2 * i][2], score[2 * i][3]),
                  pair_of(score[2 * i + 1][0], score[2 * i + 1][1]), pair_of(score[2 * i + 1][2], score[2 * i + 1][3])};
#pragma unroll
      for (int d = 0; d < HEAD / 16; d++) {
        u32 r[4];
        load4_turned(r, values + place(i * 16 + lane % 16, 2 * d + lane / 16));
        multiply(out[2 * d], p, r[0], r[1]);
        multiply(out[2 * d + 1], p, r[2], r[3]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < 2; r++) {
    l[r] += __shfl_xor_sync(WHOLE_WARP, l[r], 1);
    l[r] += __shfl_xor_sync(WHOLE_WARP, l[r], 2);
    i64 s = s0 + warp * 16 + lane / 4 + 8 * r;
    if (s >= a.lengths.positions) continue;
    if (m[r] > -INFINITE) { if (a.sink_zero) l[r] += expf(0.f - m[r]); else if (a.sink) l[r] += expf(wide(a.sink[h]) - m[r]); }
    T* to = a.out + b * a.o_b + s * a.o_s + h * a.o_h;
#pragma unroll
    for (int d = 0; d < HEAD / 8; d++)
#pragma unroll
      for (int c = 0; c < 2; c++)
        to[d * 8 + lane % 4 * 2 + c] = To<T>::from(m[r] == -INFINITE ? 0.f : out[d][2 * r + c] / l[r]);
  }
}
