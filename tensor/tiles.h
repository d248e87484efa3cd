// Products and transposes of matrices that fit into the cache, a tile of registers at a time.
//
// A general gemm first copies what it multiplies into blocks of its own, in the order in which it will read them. For
// factors that are in the cache anyway (a weight matrix, one head's queries) the copies cost more than they bring.
// Without them a product is this: hold a tile of `out` in registers, and for each p along the inner dimension load two
// vectors of b's row p, and add them to every row of the tile, times that row's a[r, p]. With eight rows that is
// sixteen multiply-adds for ten loads, which keeps the arithmetic units busy; and a may be stored either way round,
// since it is read number by number. (Included by hot.cpp, after loops.h.)

struct Factors {
  const Real* a;
  int64_t a_row, a_col;  // strides
  const Real* b;
  int64_t b_ld, k;
};

// out [rows, vectors * width] = alpha * a b + beta * out, but the first `keep` columns stay as they are.
template <int rows, int vectors>
inline void tile(const Factors& f, Real alpha, Real beta, int64_t keep, Real* out, int64_t ld) {
  Lanes sums[rows][vectors] = {};
  for (int64_t p = 0; p < f.k; ++p) {
    Lanes right[vectors];
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) right[v] = load(f.b + p * f.b_ld + v * width);
#pragma GCC unroll 16
    for (int r = 0; r < rows; ++r) {
      const Real left = f.a[r * f.a_row + p * f.a_col];
#pragma GCC unroll 16
      for (int v = 0; v < vectors; ++v) sums[r][v] += left * right[v];
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < rows; ++r)
#pragma GCC unroll 16
    for (int v = 0; v < vectors; ++v) {
      Real* const o = out + r * ld + v * width;
      Lanes y = alpha * sums[r][v];
      if (beta != 0) y += beta * load(o);
      if (keep == 0)
        store(o, y);
      else
        std::memcpy(o + keep, reinterpret_cast<const Real*>(&y) + keep, size_t(width - keep) * sizeof(Real));
    }
}

// A last tile that is narrower reaches back over columns that are done.
template <int rows, int vectors>
inline void tiles(Factors f, int64_t m, Real alpha, Real beta, Real* out, int64_t ld) {
  const Real* const b = f.b;
  int64_t c = 0;
  for (; c + vectors * width <= m; f.b = b + c) {
    tile<rows, vectors>(f, alpha, beta, 0, out + c, ld);
    c += vectors * width;
  }
  for (; c < m; c += width) {
    const int64_t from = c + width <= m ? c : m - width;
    f.b = b + from;
    tile<rows, 1>(f, alpha, beta, c - from, out + from, ld);
  }
}

// [width, width], by exchanging the off-diagonal halves of the square, then those of its quarters, and so on.
template <int half = width / 2>
inline void exchange(Lanes* row) {
  if constexpr (half > 0) {
    Index upper = {}, lower = {};  // lanes 0 .. width-1 are those of the first operand
    for (int lane = 0; lane < width; ++lane) {
      upper[lane] = lane & half ? width + lane - half : lane;
      lower[lane] = lane & half ? width + lane : lane + half;
    }
    for (int i = 0; i < width; ++i) {
      if (i & half) continue;
      const Lanes a = row[i], b = row[i + half];
      row[i] = __builtin_shuffle(a, b, upper);
      row[i + half] = __builtin_shuffle(a, b, lower);
    }
    exchange<half / 2>(row);
  }
}

inline void transpose_square(const Real* x, int64_t ld, Real* out, int64_t out_ld) {
  Lanes row[width];
  for (int64_t i = 0; i < width; ++i) std::memcpy(&row[i], x + i * ld, sizeof(Lanes));
  exchange(row);
  for (int64_t i = 0; i < width; ++i) std::memcpy(out + i * out_ld, &row[i], sizeof(Lanes));
}

// AVX-512 has 32 registers, the others (most of them) 16: sums for eight rows, or six, leave room for the factors.
constexpr int rows_in_a_tile = CLEARHEAD_VECTOR_BYTES == 64 ? 8 : 6;

void product(int64_t n, int64_t m, int64_t k, Real alpha, const MatrixRef& a, const Real* b, int64_t b_ld, Real beta,
             Real* out, int64_t ld) {
  Factors f{a.data, a.transposed ? 1 : a.ld, a.transposed ? a.ld : 1, b, b_ld, k};
  const auto next = [&](int64_t rows) { n -= rows, f.a += rows * f.a_row, out += rows * ld; };
  for (; n >= rows_in_a_tile; next(rows_in_a_tile)) tiles<rows_in_a_tile, 2>(f, m, alpha, beta, out, ld);
  if (n >= 4) tiles<4, 2>(f, m, alpha, beta, out, ld), next(4);
  if (n >= 2) tiles<2, 2>(f, m, alpha, beta, out, ld), next(2);
  if (n >= 1) tiles<1, 2>(f, m, alpha, beta, out, ld);
}

void copy(const Real* x, int64_t ld, int64_t rows, int64_t cols, Real* out, int64_t out_ld) {
  for (int64_t r = 0; r < rows; ++r, x += ld, out += out_ld) {
    int64_t c = 0;
    for (; c + width <= cols; c += width) store(out + c, load(x + c));
    for (; c < cols; ++c) out[c] = x[c];
  }
}

void transpose(const Real* x, int64_t ld, int64_t rows, int64_t cols, Real* out, int64_t out_ld) {
  for (int64_t r = 0; r < rows; r += width)
    for (int64_t c = 0; c < cols; c += width) {
      if (r + width <= rows && c + width <= cols) {
        transpose_square(x + r * ld + c, ld, out + c * out_ld + r, out_ld);
        continue;
      }
      for (int64_t i = r; i < rows && i < r + width; ++i)
        for (int64_t j = c; j < cols && j < c + width; ++j) out[j * out_ld + i] = x[i * ld + j];
    }
}
