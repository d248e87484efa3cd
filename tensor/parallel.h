// parallel_for: the only source of threads. The same bits for any number of them.
//
// The range 0 .. n is cut into chunks of `grain`, and the cuts depend on n and grain only. Which thread takes which
// chunk is a race that nobody can see, provided that a chunk writes only what belongs to it. Sums over chunks are
// combined in index order (parallel_sum). Nothing else may be shared, so the result cannot depend on the number of
// threads.
#pragma once

#include <cstdint>
#include <functional>

namespace clearhead {

void set_num_threads(int n);  // >= 1; the default is the number of cores
int num_threads();

// Calls body(begin, end) for every chunk. Runs inline when there is one chunk, one thread, or when called from inside a
// chunk. The first exception that a chunk throws is rethrown here.
void parallel_for(int64_t n, int64_t grain, const std::function<void(int64_t begin, int64_t end)>& body);

// The sum of body(begin, end) over all chunks, added up in index order.
double parallel_sum(int64_t n, int64_t grain, const std::function<double(int64_t begin, int64_t end)>& body);

}  // namespace clearhead
