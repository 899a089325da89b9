#include "tests/faults/partner.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string_view>

namespace ng::faults {
namespace {

void Attend(const Partner& partner) {
  const int fd = open(partner.path.c_str(), (partner.writes ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return;
  if (partner.writes) {
    for (std::string_view bytes = partner.bytes; !bytes.empty();) {
      const ssize_t n = write(fd, bytes.data(), bytes.size());
      if (n <= 0) break;
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  } else {
    char buffer[1024];
    for (int64_t left = partner.most; left != 0;) {
      const ssize_t n = read(fd, buffer, sizeof(buffer));
      if (n <= 0) break;
      if (left > 0) left = std::max<int64_t>(0, left - n);
      std::this_thread::sleep_for(std::chrono::microseconds(partner.pause_us));
    }
  }
  close(fd);
}

}  // namespace

Partners::Partners(const std::vector<Partner>& partners) : partners_(partners) {
  for (const Partner& partner : partners_) {
    threads_.emplace_back([this, &partner] {
      Attend(partner);
      ++n_done_;
    });
  }
}

Partners::~Partners() {
  // Opened both ways, a FIFO opens at once, and lets whoever waits for its other end go on.
  while (n_done_ < threads_.size()) {
    for (const Partner& partner : partners_) {
      const int fd = open(partner.path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
      if (fd >= 0) close(fd);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace ng::faults
