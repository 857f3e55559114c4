/* play.h -- two training steps from a cold start, tensor by tensor, through PyTorch's allocator. */
#ifndef VRAM_PLAY_H
#define VRAM_PLAY_H

#include "segments.h"
#include "steps.h"

/* False: not a step that can be played so; `segments` is then not to be read. */
bool vram_play(const vram_scenario *scenario, const vram_report *report, const vram_steps *steps, double limit, vram_segments *segments);

#endif
