package process

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// credential finds user and group; nil where both are the manager's already.
func credential(program, name, group string) (*syscall.Credential, error) {
	if name == "" && group == "" {
		return nil, nil
	}
	fail := func(format string, args ...any) error {
		return &StartError{program, fmt.Sprintf(format, args...), syscall.EINVAL}
	}
	c := &syscall.Credential{Uid: uint32(os.Geteuid()), Gid: uint32(os.Getegid())}
	known := false
	if name != "" {
		account, err := lookupUser(name)
		uid, numeric := id(name)
		switch {
		case err == nil:
			known = true
			if err := take(c, account); err != nil {
				return nil, fail("user %s: %v", name, err)
			}
		case !numeric:
			return nil, fail("user %s: there is no such account", name)
		case group == "":
			return nil, fail("user %s: no account has this number, so a group is needed too", name)
		default:
			c.Uid = uid
		}
	} else {
		c.Groups = ownGroups()
	}
	if group != "" {
		gid, err := lookupGroup(group)
		if err != nil {
			return nil, fail("group %s: there is no such group", group)
		}
		c.Gid = gid
	}
	if int(c.Uid) == os.Geteuid() && int(c.Gid) == os.Getegid() && (known || name == "") {
		return nil, nil // nothing to change, which also who is not root may ask for
	}
	return c, nil
}

// take sets the ids of an account, and all groups that it is in.
func take(c *syscall.Credential, account *user.User) error {
	uid, _ := id(account.Uid)
	gid, _ := id(account.Gid)
	c.Uid, c.Gid = uid, gid
	groups, err := account.GroupIds()
	if err != nil {
		return fmt.Errorf("list its groups: %w", err)
	}
	for _, text := range groups {
		if g, ok := id(text); ok {
			c.Groups = append(c.Groups, g)
		}
	}
	return nil
}

func lookupUser(name string) (*user.User, error) {
	if _, numeric := id(name); numeric {
		return user.LookupId(name)
	}
	return user.Lookup(name)
}

func lookupGroup(name string) (uint32, error) {
	if gid, numeric := id(name); numeric {
		return gid, nil
	}
	g, err := user.LookupGroup(name)
	if err != nil {
		return 0, err
	}
	gid, _ := id(g.Gid)
	return gid, nil
}

func id(text string) (uint32, bool) {
	n, err := strconv.ParseUint(text, 10, 32)
	return uint32(n), err == nil
}

func ownGroups() []uint32 {
	groups, _ := os.Getgroups()
	out := make([]uint32, 0, len(groups))
	for _, g := range groups {
		out = append(out, uint32(g))
	}
	return out
}
