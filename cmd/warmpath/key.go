package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/admin"
	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/proxy/identity"
	"github.com/warmpath/warmpath/internal/terminal"
	"github.com/warmpath/warmpath/internal/wholefile"
)

// newKey is what key --json prints.
type newKey struct {
	Key    string `json:"key"`            // for the client
	Config string `json:"config"`         // for the configuration
	Line   string `json:"line,omitempty"` // of a file of keys
	File   string `json:"file,omitempty"` // to which the line was added
}

// keyOptions are the flags of key.
type keyOptions struct {
	adminFlags
	tenant, name, ends, file string
	models                   []string
	list, asJSON             bool
}

func keyCommand(e env) *cobra.Command {
	var o keyOptions
	c := &cobra.Command{
		Use:   "key",
		Short: "Make an API key for a client, or list the keys of a running router",
		Long: `key makes a random API key of 256 bits, and prints it with its form for the configuration: a hash, which does not reveal the key.
The key itself is kept nowhere: give it to the client now. With --tenant it prints the line for a file of keys
(tenants.keys_file); --file adds the line to that file, and a running router takes the key within seconds.

With --list it lists the keys of a running router, and when each was last used since the router began.`,
		Example: `  warmpath key
  warmpath key --tenant blue --models 'llama-*' --ends 90d --file keys.yaml
  warmpath key --list
  warmpath key --list --tenant blue --json`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.list {
				return listKeys(c, e, &o)
			}
			if c.Flags().Changed("models") && len(o.models) == 0 {
				return usageError(errors.New("--models is empty; leave it out for all models"))
			}
			return makeKey(e, &o)
		},
	}
	f := c.Flags()
	f.SortFlags = false
	f.StringVar(&o.tenant, "tenant", "", "`NAME` of the tenant that the key is for; with --list: list its keys only")
	f.StringSliceVar(&o.models, "models", nil,
		"`NAME[,NAME...]` of the only models that the key may use; * in one stands for any text")
	f.StringVar(&o.ends, "ends", "",
		"`TIME` when the key ends: 2027-01-31, 2027-01-31T18:00:00Z, or from now on such as 90d or 12h")
	f.StringVar(&o.name, "name", "", "`TEXT` that says what the key is for")
	f.StringVar(&o.file, "file", "", "`FILE` of keys to add the key to; it is made if there is none")
	f.BoolVar(&o.list, "list", false, "list the keys of a running router")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	o.adminFlags.add(c)
	_ = c.MarkFlagFilename("file", "yaml", "yml")
	for _, flag := range []string{"tenant", "models", "ends", "name"} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(nil, cobra.ShellCompDirectiveNoFileComp))
	}
	return c
}

// makeKey makes a key, and adds it to a file if one is named.
func makeKey(e env, o *keyOptions) error {
	if o.tenant == "" && (len(o.models) > 0 || o.ends != "" || o.name != "" || o.file != "") {
		return usageError(errors.New("--tenant: a line of a file of keys needs the tenant that the key is for"))
	}
	ends, err := endOf(o.ends, time.Now())
	if err != nil {
		return usageError(err)
	}
	k := newKey{File: o.file}
	k.Key, k.Config = config.NewKey()
	if o.tenant != "" {
		k.Line = config.TenantKey{
			Key: k.Config, Tenant: o.tenant, Name: o.name, Models: fleet.Names(o.models), Ends: ends,
		}.Line()
		if err := addKey(o.file, k.Line); err != nil {
			return usageError(err)
		}
		k.Line = strings.TrimSpace(k.Line)
	}
	if o.asJSON {
		return json.NewEncoder(e.stdout).Encode(k)
	}
	_, err = fmt.Fprintf(e.stdout, "key     %s\nconfig  %s\n", k.Key, k.Config)
	if err == nil && k.Line != "" {
		_, err = fmt.Fprintf(e.stdout, "line    %s\n", k.Line)
	}
	if err == nil && k.File != "" {
		_, err = fmt.Fprintf(e.stdout, "file    %s has it now\n", k.File)
	}
	return err
}

// endOf is a point in time, or one so long from now; zero for none.
func endOf(text string, now time.Time) (m config.Moment, err error) {
	if text == "" || m.UnmarshalText([]byte(text)) == nil {
		return m, nil
	}
	after := time.Duration(0)
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if after, err = time.ParseDuration(days + "h"); err == nil {
			after = 24 * min(after, (100*365+1)*time.Hour) // below what a Duration holds
		}
	} else {
		after, err = time.ParseDuration(text)
	}
	if err != nil || after <= 0 || after > 100*365*24*time.Hour {
		return m, fmt.Errorf("--ends %q is not a day such as 2027-01-31, a time such as 2027-01-31T18:00:00Z, "+
			"or a time from now on such as 90d", text)
	}
	return config.Moment{Time: now.Add(after).UTC().Truncate(time.Second)}, nil
}

// addKey adds a line to a file of keys, which keeps its owner and rights; "" only checks the line.
func addKey(file, line string) error {
	var before []byte
	if file != "" {
		var err error
		if before, err = wholefile.Read(file, config.KeysFileBytes); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if len(before) > 0 {
		if _, err := config.DecodeKeys(file, before); err != nil {
			return err
		}
	}
	all := withKey(before, line)
	at := file
	if at == "" {
		at = "the key"
	}
	if _, err := config.DecodeKeys(at, all); err != nil {
		return fmt.Errorf("the line cannot be added at the end; is the list under api_keys written in lines of \"  - "+
			"{...}\"? %w", err)
	}
	if file == "" {
		return nil
	}
	rest, appends := bytes.CutPrefix(all, before)
	if !appends {
		return os.WriteFile(file, all, 0o600)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(rest)
	return errors.Join(err, f.Close())
}

var (
	emptyKeys = regexp.MustCompile(`(?m)^(api_keys:)[ \t]*\[[ \t]*\]`)
	keyIndent = regexp.MustCompile(`(?m)^( *)- `)
)

// withKey is a file of keys with a further line, as far in as those that are there.
func withKey(before []byte, line string) []byte {
	all := emptyKeys.ReplaceAll(before, []byte("$1"))
	if in := keyIndent.FindSubmatch(all); in != nil {
		line = string(in[1]) + strings.TrimLeft(line, " ")
	}
	switch {
	case len(bytes.TrimSpace(all)) == 0:
		line = "api_keys:\n" + line
	case all[len(all)-1] != '\n':
		line = "\n" + line
	}
	return append(bytes.Clone(all), line...)
}

// listKeys lists the keys of a running router.
func listKeys(c *cobra.Command, e env, o *keyOptions) error {
	for _, flag := range []string{"models", "ends", "name", "file"} {
		if c.Flags().Changed(flag) {
			return usageError(fmt.Errorf("--%s is for a new key; give it or --list, not both", flag))
		}
	}
	o.fill(e)
	query := url.Values{}
	if o.tenant != "" {
		query.Set("tenant", o.tenant)
	}
	var answer struct {
		Keys []admin.Key `json:"keys"`
		More int         `json:"more"`
	}
	if err := askAdmin(c.Context(), &o.adminFlags, "/admin/keys", query, &answer); err != nil {
		return err
	}
	if o.asJSON {
		return json.NewEncoder(e.stdout).Encode(answer)
	}
	t := terminal.NewTable(terminal.Bare, "KEY", "TENANT", "NAME", "MODELS", "ENDS", "LAST USED")
	for _, k := range answer.Keys {
		ends := shortTime(k.Ends, "never")
		if k.Ended {
			ends += ", over"
		}
		models := "all"
		if len(k.Models) > 0 {
			models = strings.Join(k.Models, " ")
		}
		t.Row(k.ID, k.Tenant, k.Name, models, ends, shortTime(k.Used, "-"))
	}
	fmt.Fprint(e.stdout, strings.ReplaceAll(t.String()+"\n", " \n", "\n"))
	if answer.More > 0 {
		fmt.Fprintf(e.stdout, "and %d more that were used longer ago; --tenant lists those of one tenant\n",
			answer.More)
	}
	return nil
}

func shortTime(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format("2006-01-02 15:04:05Z")
}

// keysOf lists the door's API keys for the admin API; nil when there are no tenants.
func keysOf(t *identity.Tenants) func() []admin.Key {
	if t == nil {
		return nil
	}
	return func() []admin.Key {
		out := make([]admin.Key, 0, len(t.Keys))
		for _, k := range t.Keys {
			out = append(out, admin.Key{
				ID: k.ID, Tenant: k.Tenant, Name: k.Name, Models: k.Models, Ends: k.Ends, Used: k.Used(),
			})
		}
		return out
	}
}
