package proxy

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/proxy/fault"
	"github.com/warmpath/warmpath/internal/proxy/quota"
	"github.com/warmpath/warmpath/prompt"
	"github.com/warmpath/warmpath/route"
)

var (
	errDeadline = fault.ErrDeadline
	errWaited   = fault.ErrWaited
)

// claim opens the request on its accounts (tenant, client address, all) before its body is read.
func (c *call) claim() (err error) {
	if c.p.cfg.Quota != nil {
		var client netip.Addr
		if c.p.cfg.Quota.Clients() {
			client = c.From.Addr()
		}
		now := time.Now()
		if c.p.cfg.Quota.Carries() && c.From.Peer == "" {
			if err := quota.ConnectionOf(c.R.Context()).Carry(now, c.Request.Tenant, client); err != nil {
				return err
			}
		}
		c.ticket, err = c.p.cfg.Quota.Enter(now, c.Request.Tenant, client)
	}
	if err != nil {
		return err
	}
	return c.readTargets()
}

// bytesPerToken estimates the tokens of a prompt until the engine has counted them.
const bytesPerToken = 4

// charge charges the tokens of a request that has been read, and sets its place in the router's queue.
func (c *call) charge() error {
	q := &c.Request
	prompt := int64(q.PromptTokens + q.PromptBytes/bytesPerToken)
	if q.Class == fleet.Aside {
		prompt = 0
	}
	if c.p.cfg.Quota != nil {
		if err := c.ticket.Charge(time.Now(), prompt, int64(q.MaxTokens), q.Class == fleet.Turn); err != nil {
			return err
		}
	}
	limits := c.p.cfg.Quota.Of(q.Tenant)
	asked, err := c.priority()
	if err != nil {
		return err
	}
	q.Standing = limits.Standing
	if c.shortened = c.wait > 0 && (limits.Wait == 0 || c.wait < limits.Wait); !c.shortened {
		c.wait = limits.Wait
	}
	q.Standing.Priority = min(asked, limits.Standing.Priority)
	return nil
}

// settle closes the accounts of a request that has ended. Tokens that the engine did not report are estimated, for a truncated answer from its
// pieces.
func (c *call) settle() {
	u := &c.served.Usage
	prompt, answer := int64(u.PromptTokens), int64(u.OutputTokens)
	if prompt == 0 && answer == 0 && c.sent.Load() && c.served.Error == "" && c.served.Status < 300 {
		prompt, answer = c.ticket.Prompt(), int64(c.served.Chunks)
	}
	c.ticket.End(c.served.Ended, c.reached, prompt, answer)
}

// priority is the priority that the client asks for: X-Warmpath-Priority, else OpenAI's service_tier, else vLLM's priority, of
// which the lowest goes first.
func (c *call) priority() (fleet.Priority, error) {
	if h := c.R.Header["X-Warmpath-Priority"]; len(h) > 0 {
		p, err := fleet.ParsePriority(strings.ToLower(strings.TrimSpace(h[0])))
		if err != nil {
			return p, fault.Header("X-Warmpath-Priority", "must be low, normal or high")
		}
		return p, nil
	}
	if c.API == prompt.Other || c.Body == nil {
		return fleet.PriorityNormal, nil
	}
	text := func(field string) string {
		at := c.Prompt.Field(field)
		if at.Len() <= 0 || at.Len() > 20 {
			return ""
		}
		return string(c.Body.Bytes[at.Start:at.End])
	}
	switch text("service_tier") {
	case `"priority"`:
		return fleet.PriorityHigh, nil
	case `"flex"`:
		return fleet.PriorityLow, nil
	case "":
	default:
		return fleet.PriorityNormal, nil
	}
	number := text("priority")
	if number == "" {
		return fleet.PriorityNormal, nil
	}
	switch n, err := strconv.ParseInt(number, 10, 64); {
	case err != nil || n == 0:
		return fleet.PriorityNormal, nil
	case n < 0:
		return fleet.PriorityHigh, nil
	default:
		return fleet.PriorityLow, nil
	}
}

// readTargets reads what the client says of times: X-Warmpath-Deadline, within which its answer must begin, X-Warmpath-Wait, the longest wait in the
// router's queue, and the objectives X-Warmpath-Ttft-Ms and X-Warmpath-Tpot-Ms.
func (c *call) readTargets() error {
	deadline, err := target(c.R.Header, "X-Warmpath-Deadline", time.Second)
	if deadline > 0 {
		c.deadline = c.served.Started.Add(deadline)
	}
	if err == nil {
		c.wait, err = target(c.R.Header, "X-Warmpath-Wait", time.Second)
	}
	if err == nil {
		c.served.WantedTTFT, err = target(c.R.Header, "X-Warmpath-Ttft-Ms", time.Millisecond)
	}
	if err == nil {
		c.served.WantedTPOT, err = target(c.R.Header, "X-Warmpath-Tpot-Ms", time.Millisecond)
	}
	return err
}

// unattainable is the error for a request of low priority that no endpoint is expected to begin to answer within its objective; else nil. What
// matters more is sent in any case: a late answer is better than none.
func (c *call) unattainable(p *route.Plan) error {
	wanted := c.served.WantedTTFT
	if wanted == 0 || c.Request.Standing.Priority != fleet.PriorityLow || p.TTFTMs <= float64(wanted)/float64(time.Millisecond) {
		return nil
	}
	return fault.ErrUnattainable
}
