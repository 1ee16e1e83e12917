package segments

// Every size limit of the data model stands here and nowhere else. The numbers up to MaxFencingTokenBytes are the
// S2 API's (s2-api 3.2 and 10.1); the rest are ours.
const (
	// MaxRecordBytes bounds the metered size of one record.
	MaxRecordBytes = 1 << 20
	// MaxBatchBytes bounds the metered size of one batch, appended or read.
	MaxBatchBytes = 1 << 20
	// MaxBatchRecords bounds the records of one batch, appended or read.
	MaxBatchRecords = 1000
	// MaxRecordProtoBytes bounds one record as a ReadBatch in protobuf, with the largest of numbers and times: a frame of
	// a session (s2-api 10.1) must hold it. Only a record of 1 MiB of the smallest headers has more.
	MaxRecordProtoBytes = 2<<20 - 1
	// MaxFencingTokenBytes bounds a fencing token, in bytes of UTF-8.
	MaxFencingTokenBytes = 36

	// BlockBytes is the size of encoded records at which a block is closed. Only a block of one record is larger.
	BlockBytes = 256 << 10
	// ChunkBytes is the size of encoded records at which a chunk is closed: it bounds what one entry makes a reader
	// fetch, and one batch more is the most a chunk can hold beyond it.
	ChunkBytes = 4 << 20
	// SegmentBytes is the size at which a flush closes a segment.
	SegmentBytes = 16 << 20
	// MaxPageRows bounds the rows of one page (protocol 6).
	MaxPageRows = 1024
	// PageLevels is the number of page levels, 0 to 3 (protocol 1): 10^12 entries.
	PageLevels = 4
	// MaxObjectBytes bounds what a reader accepts as one object: far above any segment or page written here.
	MaxObjectBytes = 256 << 20
	// MaxKeyBytes bounds an object key (S3 allows 1024, and a bucket may be shared under a prefix).
	MaxKeyBytes = 1000
	// MaxKeyPartBytes bounds what stands between two slashes of a key: file systems and MinIO allow 255.
	MaxKeyPartBytes = 200
)
