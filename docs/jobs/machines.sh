#!/bin/sh
# Two machines without any scheduler: run `sh machines.sh 0 HOST:PORT` on the first and `sh machines.sh 1 HOST:PORT`
# on the second, both with an address of the first that the second can reach.
exec lockstep run --nnodes 2 --node-rank "$1" --master "$2" -n 4 --max-restarts 3 train.py
