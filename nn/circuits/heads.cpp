#include "nn/circuits/heads.h"

namespace clearhead::inline CLEARHEAD_REAL {
namespace {

// `is_source(b, i, j)`: does source j <= i count for destination i of sequence b?
template <class IsSource>
std::vector<double> mean_attention(const Tensor& pattern, IsSource is_source) {
  require(pattern.rank() == 4 && pattern.dim(2) == pattern.dim(3), "heads", "a pattern is [B, H, T, T], got ",
          pattern.shape());
  const int64_t B = pattern.dim(0), H = pattern.dim(1), T = pattern.dim(2);
  const Tensor p = pattern.contiguous();
  std::vector<double> score(size_t(H), 0);
  int64_t destinations = 0;
  std::vector<int64_t> sources;
  for (int64_t b = 0; b < B; ++b)
    for (int64_t i = 0; i < T; ++i) {
      sources.clear();
      for (int64_t j = 0; j <= i; ++j)
        if (is_source(b, i, j)) sources.push_back(j);
      if (sources.empty()) continue;
      ++destinations;
      for (int64_t h = 0; h < H; ++h)
        for (int64_t j : sources) score[size_t(h)] += double(p.data()[((b * H + h) * T + i) * T + j]);
    }
  require(destinations > 0, "heads", "no position of these tokens has a source of that kind");
  for (double& s : score) s /= double(destinations);
  return score;
}

void check_tokens(const Tensor& pattern, const Tokens& tokens) {
  require(pattern.rank() == 4 && pattern.dim(0) == tokens.B && pattern.dim(2) == tokens.T, "heads", "the pattern ",
          pattern.shape(), " is not of tokens ", tokens.shape());
}

}  // namespace

std::vector<double> previous_token_scores(const Tensor& pattern) {
  return mean_attention(pattern, [](int64_t, int64_t i, int64_t j) { return j == i - 1; });
}

std::vector<double> current_token_scores(const Tensor& pattern) {
  return mean_attention(pattern, [](int64_t, int64_t i, int64_t j) { return i > 0 && j == i; });
}

std::vector<double> first_token_scores(const Tensor& pattern) {
  return mean_attention(pattern, [](int64_t, int64_t i, int64_t j) { return i > 0 && j == 0; });
}

std::vector<double> duplicate_token_scores(const Tensor& pattern, const Tokens& x) {
  check_tokens(pattern, x);
  return mean_attention(pattern, [&](int64_t b, int64_t i, int64_t j) { return j < i && x(b, j) == x(b, i); });
}

std::vector<double> prefix_matching_scores(const Tensor& pattern, const Tokens& x) {
  check_tokens(pattern, x);
  return mean_attention(pattern, [&](int64_t b, int64_t i, int64_t j) { return j >= 1 && x(b, j - 1) == x(b, i); });
}

}  // namespace clearhead::inline CLEARHEAD_REAL
