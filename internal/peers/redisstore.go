package peers

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// putScript writes a value unless a later version is there. Versions are 8 bytes, of which Lua's numbers hold the lower
// seven.
const putScript = `local function version(s)
  local v = 0
  for i = 2, 8 do v = v * 256 + string.byte(s, i) end
  return v
end
local old = redis.call('GETRANGE', KEYS[1], 0, 7)
if #old == 8 and version(old) > version(ARGV[1]) then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

var put = rueidis.NewLuaScript(putScript)

// scanned is how many keys are asked for in one step.
const scanned = 1000

// prefixOf is the prefix of all that a fleet has in the store.
func prefixOf(fleet uint64) string { return "wp:" + strconv.FormatUint(fleet, 16) + ":s:" }

// client is the connection of the store, which is apart from those of frames. When ctx ends before done is called, it
// breaks.
func (d *Redis) client(ctx context.Context) (c rueidis.Client, done func(), err error) {
	done = d.stores.within(ctx)
	d.storing.Lock()
	defer d.storing.Unlock()
	cuts := d.stores.cutSoFar()
	if d.store != nil && d.opened != cuts {
		d.store.Close() // it may still give a command to a connection that was cut, and that command would fail
		d.store = nil
	}
	if d.store == nil {
		d.opened = cuts
		d.store, err = d.open(&d.stores)
	}
	return d.store, done, err
}

// Close ends the connection of the store.
func (d *Redis) Close() {
	d.stores.cut()
	d.storing.Lock()
	defer d.storing.Unlock()
	if d.store != nil {
		d.store.Close()
		d.store = nil
	}
}

// Put implements Store. A key that holds something else than a value is left alone.
func (d *Redis) Put(ctx context.Context, s Self, all []Kept) error {
	c, done, err := d.client(ctx)
	defer done()
	if err != nil || len(all) == 0 {
		return err
	}
	var multi []rueidis.LuaExec
	for _, k := range all {
		multi = append(multi, rueidis.LuaExec{
			Keys: []string{prefixOf(s.Fleet) + k.Name},
			Args: []string{rueidis.BinaryString(k.Value), strconv.FormatInt(max(1, k.For.Milliseconds()), 10)},
		})
	}
	for _, r := range put.ExecMulti(ctx, c, multi...) {
		if err := r.Error(); err != nil && !wrongType(err) {
			return err
		}
	}
	return nil
}

// wrongType reports whether another program's value is under the key.
func wrongType(err error) bool {
	var e *rueidis.RedisError
	return errors.As(err, &e) && strings.Contains(e.Error(), "WRONGTYPE")
}

// Get implements Store.
func (d *Redis) Get(ctx context.Context, s Self, name string) ([]byte, error) {
	c, done, err := d.client(ctx)
	defer done()
	if err != nil {
		return nil, err
	}
	b, err := c.Do(ctx, c.B().Get().Key(prefixOf(s.Fleet)+name).Build()).AsBytes()
	if rueidis.IsRedisNil(err) || wrongType(err) {
		return nil, nil
	}
	return b, err
}

// Remove implements Store.
func (d *Redis) Remove(ctx context.Context, s Self, names []string) error {
	c, done, err := d.client(ctx)
	defer done()
	if err != nil {
		return err
	}
	for len(names) > 0 {
		n := min(len(names), scanned)
		var all rueidis.Commands
		for _, name := range names[:n] {
			all = append(all, c.B().Del().Key(prefixOf(s.Fleet)+name).Build())
		}
		for _, r := range c.DoMulti(ctx, all...) {
			if err := r.Error(); err != nil {
				return err
			}
		}
		names = names[n:]
	}
	return nil
}

// Each implements Store: it walks over the keys of each node.
func (d *Redis) Each(ctx context.Context, s Self, f func(name string, value []byte) bool) error {
	c, done, err := d.client(ctx)
	defer done()
	if err != nil {
		return err
	}
	prefix := prefixOf(s.Fleet)
	for _, node := range c.Nodes() {
		if role, err := node.Do(ctx, node.B().Role().Build()).ToArray(); err == nil && len(role) > 0 &&
			c.Mode() == rueidis.ClientModeCluster {
			if is, _ := role[0].ToString(); is == "slave" {
				continue // its master has the same
			}
		}
		for cursor := uint64(0); ; {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+"*").Count(scanned).Build()).
				AsScanEntry()
			if err != nil {
				return err
			}
			var all rueidis.Commands
			for _, key := range page.Elements {
				all = append(all, c.B().Get().Key(key).Build())
			}
			for i, r := range c.DoMulti(ctx, all...) {
				switch b, err := r.AsBytes(); {
				case rueidis.IsRedisNil(err), wrongType(err):
				case err != nil:
					return err
				case !f(strings.TrimPrefix(page.Elements[i], prefix), b):
					return nil
				}
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return nil
}
