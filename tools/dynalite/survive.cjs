// Loaded before dynalite (node --require): it ends when a client breaks a request off, as a client that is killed does.
// Such a request has not been read to its end, so nothing of it was begun. Every other fault ends it as before.
process.on('uncaughtException', (error) => {
  if (error.code === 'ECONNRESET' || error.code === 'EPIPE') return
  console.error(error)
  process.exit(1)
})
