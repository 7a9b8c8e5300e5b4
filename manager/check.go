package manager

import (
	"fmt"

	"crawlkeeper/configs"
	"crawlkeeper/sql"
)

// CheckSource says what a manager with this configuration would refuse of a source: why it has no crawler, and why it gets
// no ticks. Both are "" where all is well. A source without a crawler gets no ticks either.
func CheckSource(c *configs.Config, row sql.Source) (noCrawl, noTicks string) {
	if err := CheckCode(row.Code); err != nil {
		return err.Error(), ""
	}
	adapter, ok := c.Adapter(row.Adapter)
	if !ok {
		return noAdapter(row.Adapter), ""
	}
	s := source{row: row, adapter: &adapter}
	s.replan()
	return "", s.noTicks
}

func noAdapter(name string) string {
	return fmt.Sprintf("there is no adapter %q in the configuration, and no \"*\"", name)
}
