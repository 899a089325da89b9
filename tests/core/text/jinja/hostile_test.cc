// Templates that mean harm: they are refused soon and with little memory.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <ctime>
#include <string>
#include <vector>

#include "core/text/jinja/template.h"
#include "tests/support/sanitized.h"

namespace ng::jinja {
namespace {

std::string Times(const std::string& text, int n) {
  std::string all;
  for (int i = 0; i < n; ++i) all += text;
  return all;
}

// One that holds on to values in `ns` again and again.
std::string Growing(const std::string& start, const std::string& step) {
  return "{% set ns = namespace(x=" + start +
         ") %}{% for i in range(100000) %}{% set ns.x = " + step + " %}{% endfor %}";
}

std::vector<std::string> Hostile() {
  const std::string nest = "{% for i in range(99999) %}";
  std::vector<std::string> all = {
      // Loops.
      Times(nest, 2) + Times("{% endfor %}", 2),
      Times(nest, 5) + "x" + Times("{% endfor %}", 5),
      Times(nest, 2) + "xxxxxxxxxxxxxxxx" + Times("{% endfor %}", 2),
      Times(nest, 2) + "{% set a = i %}" + Times("{% endfor %}", 2),
      Times(nest, 2) + "{% if false %}{% endif %}" + Times("{% endfor %}", 2),
      Times(nest, 2) + "{% continue %}" + Times("{% endfor %}", 2),
      "{{ range(10000000) }}",
      "{{ range(-9223372036854775807, 9223372036854775807)|list }}",
      Growing("range(9999)|list", "ns.x|reverse|list"),
      Growing("range(9999)|list", "ns.x|map('string')|list"),
      Growing("range(9999)|list", "ns.x|sort(reverse=true)"),
      "{% for i in range(99999) %}{{ range(9999)|sum }}{% endfor %}",
      "{{ range(99999)|unique|list }}",
      "{{ range(50000)|map('string')|unique|list|length }}",
      "{% for a in [1, 2] recursive %}{{ loop([1, 2]) }}{% endfor %}",
      // Recursion.
      "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(x) %}{{ m(x + 1) }}{% endmacro %}{{ m(0) }}",
      "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}",
      "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(25) }}",
      "{% macro m() %}{% call m() %}{{ caller() }}{% endcall %}{% endmacro %}{{ m() }}",
      "{% macro m(f) %}{{ f(f) }}{% endmacro %}{{ m(m) }}",
      "{% macro m(x) %}{{ m([x]) }}{% endmacro %}{{ m(0) }}",
      "{% macro m() %}" + Times("x", 3000) + "{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
      // Huge texts.
      "{{ 'x' * 1000000000 }}",
      "{{ 'x' * 9223372036854775807 }}",
      "{{ [0] * 100000000 }}",
      "{{ ('x' * 1000000)|replace('x', 'y' * 1000) }}",
      "{{ ('x' * 1000000).replace('', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy') }}",
      "{{ (['x'] * 100000)|join('y' * 1000) }}",
      "{{ ('y' * 1000).join(['x'] * 100000) }}",
      "{{ 'x'.center(1000000000) }}",
      "{{ 'x'.ljust(9223372036854775807) }}",
      "{{ 'x'|center(1000000000) }}",
      "{{ '%1000000000s' % 'x' ~ 'x' * 99999999 }}",
      "{{ '{:>99999999}'.format('x') ~ 'x' * 99999999 }}",
      "{{ ('\\n' * 1000000)|indent(10000, true, true) }}",
      "{{ ('x' * 4000000)|list }}",
      "{{ ('x ' * 2000000).split() }}",
      "{{ ('x' * 4000000).split('x') }}",
      "{{ ('x\\n' * 2000000).splitlines() }}",
      "{{ [1]|tojson(indent='x' * 4000000) ~ [[1]]|tojson(indent='x' * 4000000) }}",
      "{{ ['x' * 1000000]|tojson * 1000 }}",
      "{{ [1, 2]|batch(1000000000, 0)|list }}",
      "{{ [1, 2]|slice(1000000000)|list }}",
      Growing("'x'", "ns.x ~ ns.x"),
      Growing("'x'", "ns.x + ns.x"),
      Growing("'x'", "ns.x|replace('x', 'xx')"),
      Growing("[1]", "ns.x + ns.x"),
      Growing("'x'", "ns.x.join('abc')"),
      Growing("{}", "dict(ns.x, **{i|string: i})"),
      "{% set a = 'x' * 1000000 %}" + Times("{{ a }}", 50),
      "{% set a %}" + Times("{% for i in range(9999) %}xxxxxxxxxxxxxx{% endfor %}", 90) +
          "{% endset %}",
      // Nesting.
      Growing("[]", "[ns.x]"),
      Growing("{}", "{'a': ns.x}"),
      Growing("[]", "[ns.x.index]"),
      Growing("1", "namespace(a=ns.x)"),
      "{{ " + Times("(", 100000) + "1" + Times(")", 100000) + " }}",
      "{{ " + Times("[", 50000) + Times("]", 50000) + " }}",
      "{{ " + Times("not ", 90000) + "1 }}",
      "{{ " + Times("-", 90000) + "1 }}",
      "{{ 1" + Times(" + 1", 45000) + " }}",
      "{{ x" + Times(".y", 45000) + " }}",
      "{{ 1" + Times(" if 1 else 1", 20000) + " }}",
      "{{ 'x'" + Times("|upper", 45000) + " }}",
      Times("{% if 1 %}", 20000) + Times("{% endif %}", 20000),
      Times("{% for x in y %}", 10000),
      Times("{{ 1 }}", 100000),
      "{% for " + Times("(", 50000) + "x" + Times(")", 50000) + " in y %}{% endfor %}",
      Times("{% macro m() %}", 20000),
      // What does not end.
      "{{ 'x",
      "{#" + Times("-", 100000),
      "{% raw %}" + Times("{% ", 50000),
      "{{ 'x' if " + Times("x and ", 50000) + "1 }}",
  };
  return all;
}

int64_t MostMemory() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

// A sanitizer takes its own time and memory.
constexpr bool kIsMeasured = !kSanitized;

TEST(HostileTemplates, AreRefusedSoonAndWithLittleMemory) {
  const std::vector<std::string> all = Hostile();
  EXPECT_GE(all.size(), 60U);
  for (const std::string& source : all) {
    const int64_t before = MostMemory();
    const std::clock_t begin = std::clock();
    absl::Status status;
    const auto parsed = Template::Parse(source, "t");
    status = parsed.status();
    if (parsed.ok()) {
      status = parsed->Render({nlohmann::ordered_json::object(), nullptr}, {}).status();
    }
    // Of this process: other work of the machine does not count.
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const std::string shown = source.substr(0, 150);
    EXPECT_FALSE(status.ok()) << shown;
    EXPECT_EQ(std::string(status.message()).find('\n'), std::string::npos) << shown;
    if (!kIsMeasured) continue;
    EXPECT_LT(took, 1.0) << shown;
    EXPECT_LT(MostMemory() - before, int64_t{64} << 20) << shown;
  }
}

}  // namespace
}  // namespace ng::jinja
