// Norms, softmax and reductions: one block a row (or a line of elements with a stride).
// T: element type of x; G: of the factors; Y: of the output. Defined by whoever compiles this file.

struct Norm { i64 width, skip_rows, centred; double epsilon; };

// y = norm(x + skip + bias) · gamma + beta; the unrounded sum is normalised. Any output may be x or skip.
extern "C" __global__ void normalise(Norm n, const T* x, const T* skip, const T* bias, const G* gamma, const G* beta,
                                Y* y, float* mean_out, float* inverse_out, T* sum_out) { BEGIN();
  extern __shared__ float row[];
  __shared__ float room[32];
  i64 width = n.width, at = blockIdx.x * width;
  i64 other = skip ? (blockIdx.x % n.skip_rows) * width : 0;
  float total = 0.f, squares = 0.f;
  for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
    float v = wide(x[at + i]);
    if (skip) v += wide(skip[other + i]);
    if (bias) v += wide(bias[i]);
    row[i] = v; total += v; squares += v * v;
  }
  float mean = 0.f;
  if (n.centred) {
    mean = block_sum(total, room) / (float)width;
    squares = 0.f;
    for (i64 i = threadIdx.x; i < width; i += blockDim.x) { float v = row[i] - mean; squares += v * v; }
  }
  float inverse = 1.f / sqrtf(block_sum(squares, room) / (float)width + (float)n.epsilon);
  for (i64 i = threadIdx.x; i < width; i += blockDim.x) {
    float v = row[i];
    if (sum_out) sum_out[at + i] = To<T>::from(v);
    v = (v - mean) * inverse * wide(gamma[i]);
    if (beta) v += wide(beta[i]);
    y[at + i] = To<Y>::from(v);
  }
  if (threadIdx.x == 0) {
    if (mean_out) mean_out[blockIdx.x] = n.centred ? mean : 0.f;
    if (inverse_out) inverse_out[blockIdx.x] = inverse;
  }
}
