// A table that fits a screen: its heading and its lines, one at a time.
//
// Thread: const methods may be called from any.
#ifndef NG_APPS_COMMON_TABLE_H_
#define NG_APPS_COMMON_TABLE_H_

#include <cstddef>
#include <string>
#include <vector>

namespace ng {

struct TableColumn {
  std::string name;
  size_t columns = 0;  // of the screen, at least; the name may need more
  bool left = false;   // a text; a number stands at the right
  int rank = 0;        // where the screen is too narrow, columns with the highest go first; 0: none
};

class Table {
 public:
  // `width`: of the screen; 0: all columns are shown.
  Table(std::vector<TableColumn> columns, size_t width);

  std::string Head() const;
  // `cells`: of all columns; those at the end may be absent.
  std::string Line(const std::vector<std::string>& cells) const;
  // What to say of the columns that are left out: "(--wide shows rows, KL p99 too)\n"; empty: all
  // are there.
  std::string Note() const;

 private:
  size_t width_;
  std::vector<TableColumn> columns_;
  std::vector<bool> shown_;
};

// The width for a program with --wide: that of the screen, or 0.
size_t TableWidth(bool wide);

}  // namespace ng

#endif  // NG_APPS_COMMON_TABLE_H_
