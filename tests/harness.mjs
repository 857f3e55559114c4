// A test is a name and a function that throws; its result is one line, which tests/run.mjs counts.

let only = process.env.ONLY && new RegExp(process.env.ONLY)

export async function test(name, body) {
  if (only && !only.test(name)) return
  try {
    await body()
    console.log(`ok - ${name}`)
  } catch (problem) {
    console.log(`not ok - ${name}`)
    const text = problem?.code === 'ERR_ASSERTION' ? problem.message : problem?.stack ?? String(problem)
    for (const line of text.split('\n').slice(0, 40)) console.log(`#   ${line.slice(0, 400)}`)
    process.exitCode = 1
  }
}

export const skip = (name, why) => console.log(`skip - ${name}: ${why}`)
export const note = text => console.log(`# ${text}`)
