"""The verdict of a race: times to target, quality at equal time, trials that can no longer count, one sentence."""
