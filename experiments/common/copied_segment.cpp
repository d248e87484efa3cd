#include "experiments/common/copied_segment.h"

#include <algorithm>
#include <map>
#include <set>

namespace clearhead {

CopiedSegment::Sample CopiedSegment::sample(int64_t B, Rng& rng) const {
  require(length >= 2 && 2 * length <= T, "task", "a segment of ", length, " tokens and its copy do not fit into ", T);
  Sample s{Tokens(B, T + 1), {}, {}};
  for (int32_t& id : s.tokens.ids) id = int32_t(rng.below(V));
  for (int64_t b = 0; b < B; ++b) {
    const int64_t to = length + rng.below(T + 2 - 2 * length), from = rng.below(to - length + 1);
    for (int64_t i = 0; i < length; ++i) s.tokens(b, to + i) = s.tokens(b, from + i);
    s.from.push_back(from), s.to.push_back(to);
  }
  return s;
}

std::vector<CopiedPosition> copied_positions(const CopiedSegment& task, const CopiedSegment::Sample& s) {
  std::vector<CopiedPosition> list;
  for (int64_t b = 0; b < s.tokens.B; ++b)
    for (int64_t i = 0; i + 1 < task.length; ++i) list.push_back({b, s.to[size_t(b)] + i, s.from[size_t(b)] + i});
  return list;
}

int64_t followers(const Tokens& x, const CopiedPosition& c) {
  std::set<int32_t> next;
  for (int64_t j = 0; j < c.t; ++j)
    if (x(c.b, j) == x(c.b, c.t)) next.insert(x(c.b, j + 1));
  return int64_t(next.size());
}

double matching_accuracy(const CopiedSegment& task, const CopiedSegment::Sample& s, int64_t n, int64_t gap) {
  const Tokens& x = s.tokens;
  double first = 0, last = 0, frequent = 0, all = 0;
  for (const auto& [b, t, source] : copied_positions(task, s)) {
    std::vector<int32_t> followers;
    for (int64_t m = n; m > 0 && followers.empty(); --m)
      for (int64_t j = m - 1; j <= t - gap; ++j) {
        int64_t same = 0;
        while (same < m && x(b, j - same) == x(b, t - same)) ++same;
        if (same == m) followers.push_back(x(b, j + 1));
      }
    std::map<int32_t, int64_t> votes;
    int64_t most = 0, winners = 0;
    for (const int32_t token : followers) most = std::max(most, ++votes[token]);
    for (const auto& [token, count] : votes) winners += count == most;
    const int32_t next = x(b, t + 1);
    first += followers.front() == next, last += followers.back() == next;
    if (votes[next] == most) frequent += 1 / double(winners);
    ++all;
  }
  return std::max({first, last, frequent}) / all;
}

}  // namespace clearhead
