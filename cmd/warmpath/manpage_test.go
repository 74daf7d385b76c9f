package main

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestManPageShowsTextAsItIs: no text of a command is a request or an escape of man(7), and what a flag takes is there.
func TestManPageShowsTextAsItIs(t *testing.T) {
	root := &cobra.Command{Use: "warmpath", Short: "w"}
	c := &cobra.Command{
		Use: "odd [URL...]", Short: `a \fB-b`, Example: "  odd --x\n.SH NO", Run: func(*cobra.Command, []string) {},
		Long: "one\n.SH NO\n\n'two\n\n  as it\n  stands",
	}
	c.Flags().StringP("config", "c", "a.yaml", "configuration `FILE`")
	c.Flags().Bool("plain", false, ".SH NO")
	c.Flags().String("unseen", "", "")
	_ = c.Flags().MarkHidden("unseen")
	root.AddCommand(c)
	page := manPage(c, "Nov 2026", "warmpath 1")
	for _, want := range []string{
		".TH \"WARMPATH-ODD\" \"1\" \"Nov 2026\" \"warmpath 1\" \"warmpath manual\"\n",
		"\nwarmpath\\-odd \\- a \\efB\\-b\n",
		"\none\n\\&.SH NO\n.PP\n\\&'two\n.PP\n.EX\n  as it\n  stands\n.EE\n", "  odd \\-\\-x\n\\&.SH NO\n",
		".TP\n\\fB\\-c\\fP, \\fB\\-\\-config\\fP \\fIFILE\\fP\nconfiguration FILE (default a.yaml)\n",
		".TP\n\\fB\\-\\-plain\\fP\n\\&.SH NO\n", ".SH SEE ALSO\n.BR warmpath (1)\n",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "\n.SH NO") || strings.Contains(page, "unseen") {
		t.Errorf("text is a request, or a hidden flag is shown:\n%s", page)
	}
}
