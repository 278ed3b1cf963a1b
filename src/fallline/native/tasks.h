// How threads share the tasks of a pass.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

// Tasks [first, last).  Every worker begins with a share of its own, the same in every step, so that memory that it wrote
// in the last step may still be in its cache.  A worker that is done helps the others, because threads do not always get
// their processors.  The result does not depend on which worker takes a task, because tasks are cut by element count.
class fl_tasks {
  public:
    fl_tasks(int64_t first, int64_t last, int workers) : shares_(std::max(1, std::min(workers, MOST_SHARES))) {
        const int64_t count = last - first;
        // A range is small enough that workers finish together, and large enough that taking it costs nothing.
        grain_ = std::max<int64_t>(1, std::min<int64_t>(16, count / (16 * shares_)));
        for (int i = 0; i < shares_; ++i) {
            share_[i].next.store(first + count * i / shares_, std::memory_order_relaxed);
            share_[i].end = first + count * (i + 1) / shares_;
        }
    }

    // The next tasks [begin, end) for a worker; false when nothing is left.
    bool take(int worker, int64_t& begin, int64_t& end) {
        for (int i = 0; i < shares_; ++i) {
            Share& share = share_[(worker + i) % shares_];
            if (share.next.load(std::memory_order_relaxed) >= share.end) continue;
            begin = share.next.fetch_add(grain_, std::memory_order_relaxed);
            if (begin >= share.end) continue;
            end = std::min(begin + grain_, share.end);
            return true;
        }
        return false;
    }

  private:
    static constexpr int MOST_SHARES = 64;
    struct alignas(64) Share {
        std::atomic<int64_t> next{0};
        int64_t end = 0;
    };
    Share share_[MOST_SHARES];
    int shares_;
    int64_t grain_;
};
