// Threads that do the same kind of work again and again, each its own part of it.
#pragma once
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

class Crew {
public:
    // `num_threads` includes the one that calls.
    explicit Crew(unsigned num_threads) {
        for (unsigned part = 1; part < num_threads; ++part)
            threads_.emplace_back([this, part] { wait_and_work(part); });
    }
    ~Crew() {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            over_ = true;
        }
        begin_.notify_all();
        for (auto& thread : threads_) thread.join();
    }
    unsigned size() const { return unsigned(threads_.size()) + 1; }

    // Calls work(part) for every part at the same time, and returns when all are done.
    void work(const std::function<void(unsigned)>& work) {
        {
            std::lock_guard<std::mutex> lock(mutex_);
            // The function outlives its use: `work` returns when all parts are done.
            work_ = &work;
            pending_ = unsigned(threads_.size());
            ++generation_;
        }
        begin_.notify_all();
        work(0);
        std::unique_lock<std::mutex> lock(mutex_);
        end_.wait(lock, [this] { return pending_ == 0; });
    }

private:
    std::vector<std::thread> threads_;
    std::mutex mutex_;
    std::condition_variable begin_, end_;
    const std::function<void(unsigned)>* work_ = nullptr;
    unsigned pending_ = 0;
    // It is a number, since a thread that wakes up late could miss a flag or see it twice.
    uint64_t generation_ = 0;
    bool over_ = false;

    void wait_and_work(unsigned part) {
        for (uint64_t seen = 0;;) {
            std::unique_lock<std::mutex> lock(mutex_);
            begin_.wait(lock, [&] { return over_ || generation_ != seen; });
            if (over_) return;
            seen = generation_;
            lock.unlock();
            (*work_)(part);
            lock.lock();
            // The mutex makes what this part wrote visible to all parts of the next call.
            if (--pending_ == 0) end_.notify_one();
        }
    }
};
