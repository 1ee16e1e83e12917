package dynamostore

import (
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/tailrace-streams/tailrace/coordinator"
)

// The keys of the config's map. What has its zero value is left out.
const (
	configStorageClass  = "sc"
	configRetention     = "ra"
	configTimestamping  = "ts"
	configUncapped      = "un"
	configDeleteOnEmpty = "de"
	configFencing       = "fe"
)

// configMap is a stream's config as one value, since it is only ever replaced whole.
func configMap(c *coordinator.StreamConfig) types.AttributeValue {
	m := attrs{}
	m.setText(configStorageClass, string(c.StorageClass))
	m.setText(configTimestamping, string(c.Timestamping))
	m.setText(configFencing, string(c.Fencing))
	if c.RetentionAge != 0 {
		m[configRetention] = number(c.RetentionAge)
	}
	if c.DeleteOnEmptyMinAge != 0 {
		m[configDeleteOnEmpty] = number(c.DeleteOnEmptyMinAge)
	}
	if c.Uncapped {
		m[configUncapped] = boolean(true)
	}
	return &types.AttributeValueMemberM{Value: m}
}

func (d *decoder) config() (c coordinator.StreamConfig) {
	found, ok := required[*types.AttributeValueMemberM](d, attrConfig)
	if !ok {
		return c
	}
	m := &decoder{attrs: found.Value}
	c = coordinator.StreamConfig{
		StorageClass: coordinator.StorageClass(m.text(configStorageClass)),
		Timestamping: coordinator.TimestampingMode(m.text(configTimestamping)),
		Fencing:      coordinator.FencingMode(m.text(configFencing)),
	}
	if _, there := m.attrs[configRetention]; there {
		c.RetentionAge = m.num(configRetention)
	}
	if _, there := m.attrs[configDeleteOnEmpty]; there {
		c.DeleteOnEmptyMinAge = m.num(configDeleteOnEmpty)
	}
	if _, there := m.attrs[configUncapped]; there {
		c.Uncapped = m.boolean(configUncapped)
	}
	if d.err == nil {
		d.err = m.err
	}
	return c
}
