// The filters over lists; see the table in filters.cc.
#ifndef NG_CORE_TEXT_JINJA_LIST_FILTERS_H_
#define NG_CORE_TEXT_JINJA_LIST_FILTERS_H_

#include "core/text/jinja/functions.h"

namespace ng::jinja::list_filters {

Value Batch(const Input& in);
Value DictSort(const Input& in);
Value First(const Input& in);
Value GroupBy(const Input& in);
Value Items(const Input& in);
Value Join(const Input& in);
Value Last(const Input& in);
Value List(const Input& in);
Value Map(const Input& in);
Value Max(const Input& in);
Value Min(const Input& in);
Value Reject(const Input& in);
Value RejectAttr(const Input& in);
Value Reverse(const Input& in);
Value Select(const Input& in);
Value SelectAttr(const Input& in);
Value SliceInto(const Input& in);
Value Sort(const Input& in);
Value Sum(const Input& in);
Value Unique(const Input& in);

}  // namespace ng::jinja::list_filters

#endif  // NG_CORE_TEXT_JINJA_LIST_FILTERS_H_
