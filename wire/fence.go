package wire

import "net/http"

// This file has what the endpoint PUT and GET /v1/streams/{stream}/fence says, and the header that presents a token. Both
// are Tailrace's own.

// FenceInput asks for a fencing token to be installed; the empty one clears it.
type FenceInput struct {
	FencingToken string `json:"fencing_token"`
}

// FenceAck answers a FenceInput.
type FenceAck struct {
	// Tail is the admission boundary: every record that was admitted under an earlier token lies below it.
	Tail StreamPosition `json:"tail"`
	// FencingToken is installed now, Previous was before.
	FencingToken string `json:"fencing_token"`
	Previous     string `json:"previous"`
}

// FenceResponse tells the token that is installed.
type FenceResponse struct {
	FencingToken string `json:"fencing_token"`
}

// DecodeFenceInput reads the body of a PUT: `bad_json` without the token, or with one that is none.
func DecodeFenceInput(body []byte) (FenceInput, error) {
	var in FenceInput
	seen := false
	err := decodeJSON(body, func(s *scanner) error {
		return s.fields(map[string]field{"fencing_token": func(s *scanner) error {
			seen = true
			return assign(s, &in.FencingToken, readFencingToken)
		}})
	})
	if err == nil && !seen {
		err = missing("fencing_token")
	}
	return in, err
}

// FencingTokenOf reads the header Tailrace-Fencing-Token, which presents a token for the batches that name none; nil
// without it. An empty header presents the empty token. Spaces around it do not count, so a token that has some, or a
// character that no header can have, is presented in each batch instead.
func FencingTokenOf(h http.Header) (*string, error) {
	token, ok := header(h, HeaderFencingToken)
	if !ok {
		return nil, nil
	}
	if err := CheckFencingToken(token, CodeBadHeader); err != nil {
		return nil, within(HeaderFencingToken, err)
	}
	return &token, nil
}
