package tenancy

// SystemAccount owns what the service keeps for itself. It has no tokens, so whoever has one sees nothing of it.
const SystemAccount AccountID = "system"

// AuditBasin is where the service keeps its audit log, in a stream for each account. Nobody else can have the name.
const AuditBasin = "tailrace-audit"

// System is the principal of the service's own work.
func System() *Principal { return &Principal{Account: SystemAccount, Scope: Everything()} }

// onAudit is what the operator may do with the audit log: read it, and say how long it is kept, which is recorded in it.
// Entries are the service's alone, to make and to remove.
var onAudit = Scope{
	Basins: NameSet{Name: AuditBasin}, Streams: AllNames, Ops: OpsOf(
		GetBasinConfig, ReconfigureBasin, BasinMetrics, ListStreams, GetStreamConfig, ReconfigureStream, CheckTail, ReadRecords,
		StreamMetrics),
}

// AsSystem is the operator on the service's own basin; of everybody else, and of every other basin, it is p itself.
func (p *Principal) AsSystem(basin string) *Principal {
	if p == nil || !p.Operator || basin != AuditBasin {
		return p
	}
	system := *p
	system.Account, system.Scope = SystemAccount, onAudit
	return &system
}

// reserved reports whether a basin's name is kept from an account.
func reserved(name string, account AccountID) bool {
	return name == AuditBasin && account != SystemAccount
}
