package cli

import (
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/tailrace-streams/tailrace/client"
)

// ackShown is an acknowledgement as it is printed.
type ackShown struct {
	Start    client.Position `json:"start"`
	End      client.Position `json:"end"`
	Tail     client.Position `json:"tail"`
	Revision client.Revision `json:"revision,omitempty"`
}

func (s *session) showAck(ack client.Ack, what string) error {
	return s.show(ackShown{ack.Start, ack.End, ack.Tail, ack.Revision}, fmt.Sprintf("%s at %d, the tail is %d", what, ack.Start.SeqNum, ack.Tail.SeqNum))
}

func (c *commands) checkTail() *cobra.Command {
	var sight sightFlags
	cmd := &cobra.Command{
		Use:   "check-tail ADDRESS",
		Short: "Print the sequence number that the next record gets, and the last one's time",
		Example: "  tailrace check-tail tailrace://my-first-basin/orders\n" +
			"  tailrace check-tail tailrace://my-first-basin/orders --json",
		ValidArgsFunction: c.completeStreams,
	}
	sight.addTo(cmd.Flags())
	return c.verb(cmd, 1, onStream(func(s *session, addr address, args []string) error {
		tail, err := sight.stream(addr.of(s.c)).CheckTail(s.ctx)
		if err != nil {
			return fmt.Errorf("check the tail of %s: %w", shown(args[0]), err)
		}
		return s.show(struct {
			client.Position
			Revision client.Revision `json:"revision,omitempty"`
		}{tail.Position, tail.Revision}, fmt.Sprintf("%d\t%d", tail.SeqNum, tail.Timestamp))
	}))
}

// fencedShown is a fencing token as it is printed.
type fencedShown struct {
	Tail     client.Position `json:"tail"`
	Token    string          `json:"fencing_token"`
	Previous string          `json:"previous"`
	Revision client.Revision `json:"revision,omitempty"`
}

func (c *commands) fence() *cobra.Command {
	var conditions conditionFlags
	cmd := &cobra.Command{
		Use:   "fence ADDRESS TOKEN",
		Short: "Install a fencing token; the empty one clears",
		Long: "Installs a fencing token, of at most 36 bytes. When it returns, no append that presents another token can\n" +
			"succeed, on any server; on a stream whose fencing is exclusive, none that presents no token either.\n\n" +
			"To take a stream over: fence it with a token that nobody else uses, and append with --fencing-token.\n\n" +
			"No record is appended. With --fencing-token or --match-seq-num the token is installed by a command record\n" +
			"instead, on that condition; that works on every S2 server.",
		Example: "  tailrace fence tailrace://my-first-basin/orders writer-7\n" +
			"  tailrace fence tailrace://my-first-basin/orders ''\n" +
			"  tailrace fence tailrace://my-first-basin/ledger writer-8 --match-seq-num 0",
		ValidArgsFunction: c.completeStreams,
	}
	conditions.addTo(cmd.Flags())
	return c.verb(cmd, 2, onStream(func(s *session, addr address, args []string) error {
		stream, token := addr.of(s.c), args[1]
		if conditions.given() {
			return conditional(s, stream, &conditions, client.FenceCommand(token), "fenced")
		}
		fenced, err := stream.Fence(s.ctx, token)
		if err != nil {
			return fmt.Errorf("fence %s: %w", shown(args[0]), wrote(err))
		}
		return s.show(fencedShown{fenced.Tail, fenced.Token, fenced.Previous, fenced.Revision},
			fmt.Sprintf("fenced with %q (it was %q), the tail is %d", fenced.Token, fenced.Previous, fenced.Tail.SeqNum))
	}))
}

// conditional appends a command record under conditions.
func conditional(s *session, stream *client.Stream, f *conditionFlags, command client.AppendRecord, what string) error {
	ack, err := f.stream(stream).AppendBatch(s.ctx, client.Batch{Records: []client.AppendRecord{command}, MatchSeqNum: f.matching()})
	if err != nil {
		return fmt.Errorf("append a command to %s: %w", shown(stream.String()), wrote(err))
	}
	return s.showAck(ack, what)
}

func (c *commands) fencingToken() *cobra.Command {
	return c.verb(&cobra.Command{
		Use:               "get-fencing-token ADDRESS",
		Short:             "Print the fencing token that is installed",
		Example:           "  tailrace get-fencing-token tailrace://my-first-basin/orders",
		ValidArgsFunction: c.completeStreams,
	}, 1, onStream(func(s *session, addr address, args []string) error {
		token, err := addr.of(s.c).FencingToken(s.ctx)
		if err != nil {
			return fmt.Errorf("get the fencing token of %s: %w", shown(args[0]), err)
		}
		return s.show(struct {
			Token string `json:"fencing_token"`
		}{token}, token)
	}))
}

func (c *commands) trim() *cobra.Command {
	var conditions conditionFlags
	cmd := &cobra.Command{
		Use:   "trim ADDRESS SEQ_NUM",
		Short: "Let go of all records before a sequence number",
		Long: "Appends a command record that moves the trim point, which never goes back. Readers may see what was trimmed for\n" +
			"some seconds more. Sequence numbers are not used again.",
		Example:           "  tailrace trim tailrace://my-first-basin/orders 1",
		ValidArgsFunction: c.completeStreams,
	}
	conditions.addTo(cmd.Flags())
	return c.verb(cmd, 2, onStream(func(s *session, addr address, args []string) error {
		seqNum, err := strconv.ParseUint(args[1], 10, 64)
		if err != nil {
			return usagef("%q is no sequence number", args[1])
		}
		return conditional(s, addr.of(s.c), &conditions, client.TrimCommand(seqNum), "trimmed")
	}))
}
