// Action profiles and selectors: actions with their data kept apart from the tables that run them. A member is one
// of them, a group several, of which a hash of the selector's keys takes one.
#pragma once

#include "table.h"

namespace p4 {

class ActionProfile {
 public:
  explicit ActionProfile(size_t size) : size_(size) {}

  // What an entry runs. `direct` is a call without a member (a default action), `hash` a number of the packet's.
  template <class Hash>
  const ActionCall& choose(Indirect at, const ActionCall& direct, Hash&& hash) const {
    if (at.member >= 0) return members_[size_t(at.member)].call;
    if (at.group < 0) return direct;
    const std::vector<int>& members = groups_[size_t(at.group)].members;
    return members.empty() ? nothing_ : members_[size_t(members[hash() % members.size()])].call;
  }

  int add_member(ActionCall call) {
    if (live_members_ >= size_) return resource_exhausted;
    ++live_members_;
    return put(members_, Member{std::move(call), true});
  }
  int modify_member(int number, ActionCall call) {
    if (!has_member(number)) return not_found;
    members_[size_t(number)].call = std::move(call);
    return ok;
  }
  // A member that a group or an entry uses stays (P4Runtime: FAILED_PRECONDITION; the caller asks the tables).
  int erase_member(int number) {
    if (!has_member(number)) return not_found;
    for (const Group& g : groups_)
      if (g.live && std::find(g.members.begin(), g.members.end(), number) != g.members.end()) return failed_precondition;
    members_[size_t(number)] = Member{};
    --live_members_;
    return ok;
  }
  // The members in ascending order, as BMv2 counts them; `number` < 0: a new group.
  int set_group(int number, std::vector<int> members) {
    for (int m : members)
      if (!has_member(m)) return not_found;
    std::sort(members.begin(), members.end());
    if (number < 0) return put(groups_, Group{std::move(members), true});
    if (!has_group(number)) return not_found;
    groups_[size_t(number)].members = std::move(members);
    return number;
  }
  int erase_group(int number) {
    if (!has_group(number)) return not_found;
    groups_[size_t(number)] = Group{};
    return ok;
  }
  bool has(Indirect at) const { return at.member >= 0 ? has_member(at.member) : has_group(at.group); }

 private:
  struct Member {
    ActionCall call;
    bool live = false;
  };
  struct Group {
    std::vector<int> members;
    bool live = false;
  };
  template <class T>
  static int put(std::vector<T>& all, T made) {
    for (size_t i = 0; i < all.size(); ++i)
      if (!all[i].live) {
        all[i] = std::move(made);
        return int(i);
      }
    all.push_back(std::move(made));
    return int(all.size() - 1);
  }
  bool has_member(int n) const { return n >= 0 && size_t(n) < members_.size() && members_[size_t(n)].live; }
  bool has_group(int n) const { return n >= 0 && size_t(n) < groups_.size() && groups_[size_t(n)].live; }

  size_t size_, live_members_ = 0;
  std::vector<Member> members_;
  std::vector<Group> groups_;
  ActionCall nothing_;
};

}  // namespace p4
